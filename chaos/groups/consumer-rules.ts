import { createHash } from 'node:crypto';
import type { ReceivedBatch } from './group-history.ts';

/** One of 40 messages is rejected, by every consumer that gets it. */
const REJECTED_ONE_IN = 40;
/** Two messages of a run that is long enough kill every consumer that gets them. */
const KILLS = /^p[36]-90$/;

/** What consumers do with a message: always the same, whoever gets it. */
export function isRejected(id: string): boolean {
  return createHash('md5').update(id).digest().readUInt16BE() % REJECTED_ONE_IN === 0;
}

export function killsConsumers(id: string): boolean {
  return KILLS.test(id);
}

/** What is to be rejected of a batch up to an offset. */
export function rejectionsIn({ messages }: ReceivedBatch, upTo = Number.POSITIVE_INFINITY) {
  return messages
    .filter(({ id, offset }) => offset <= upTo && isRejected(id))
    .map(({ offset }) => ({ offset, reason: 'rejected by its hash' }));
}
