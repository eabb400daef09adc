import type { MessageToSend } from '../../contract/read-model-transaction.ts';
import { pointerTo } from '../../http/pointer.ts';
import {
  checkHeader,
  checkHeaderCount,
  checkHeadersSize,
  checkKey,
  checkText,
  checkTime,
  Faults,
  MAX_TYPE,
} from '../fields.ts';

type Check = (text: string, pointer: string, faults: Faults) => unknown;

const HALF_A_PAIR = /\p{Surrogate}/u;

/**
 * A message that a denormalizer sends must satisfy the same rules as a posted one. Stored unchecked, it would fail the whole
 * batch at its end, when it is no longer known who sent it, or it would be a message that no route can address.
 */
export function checkSent({ type, key, headers = {}, dueAt }: MessageToSend): void {
  const faults = new Faults();
  check(type, '/type', faults, (text) => checkText(text, MAX_TYPE, '/type', faults));
  if (key !== undefined) check(key, '/key', faults, checkKey);
  checkHeaderCount(Object.keys(headers).length, '/headers', faults);
  for (const [name, value] of Object.entries(headers))
    check(value, pointerTo('/headers', name), faults, (text, at) => checkHeader(name, text, at, faults));
  // The size of a value that is no string is unknown; that is a fault already.
  if (faults.list.length === 0) checkHeadersSize(headers, '/headers', faults);
  if (dueAt !== undefined) checkTime(timeText(dueAt), '/dueAt', faults);
  if (faults.list.length === 0) return;
  const list = faults.list.map(({ pointer, detail }) => `${pointer} ${detail}`);
  throw new Error(`a message cannot be sent: ${list.join('; ')}`);
}

/** The value may come from a payload, so it can be anything, whatever its declared type says. */
function check(value: unknown, pointer: string, faults: Faults, rule: Check): void {
  if (typeof value !== 'string') faults.add(pointer, 'must be a string');
  else if (HALF_A_PAIR.test(value)) faults.add(pointer, 'must not hold half of a surrogate pair');
  else rule(value, pointer, faults);
}

function timeText(time: Date): string {
  return Number.isNaN(time.getTime()) ? '' : time.toISOString();
}
