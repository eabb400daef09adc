import { createHash } from 'node:crypto';
import type { PulledMessage } from './queue-history.ts';

/** One of 40 messages is rejected, by every worker that gets it. */
const REJECTED_ONE_IN = 40;
/** One of 12 is asked for again after its first hand-out. */
const RETRIED_ONE_IN = 12;
/** Two messages of a run that is long enough kill every worker that gets them. */
const KILLS = /^p[25]-60$/;

/** What workers do with a message: the same whoever gets it. */
export function isRejected(id: string): boolean {
  return hash(`reject ${id}`) % REJECTED_ONE_IN === 0;
}

export function isRetried({ id, attempt }: Pick<PulledMessage, 'id' | 'attempt'>): boolean {
  return attempt === 1 && hash(`retry ${id}`) % RETRIED_ONE_IN === 0;
}

export function killsWorkers(id: string): boolean {
  return KILLS.test(id);
}

function hash(text: string): number {
  return createHash('md5').update(text).digest().readUInt16BE();
}
