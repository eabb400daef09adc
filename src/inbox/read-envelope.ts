import type { IncomingHttpHeaders } from 'node:http';
import { checkText, Faults, headerText, MAX_BATCH, MAX_ID } from './fields.ts';
import { type ProducerSequence, sourceOfCaller } from './new-message.ts';
import type { Envelope } from './parse-message.ts';

/** It becomes the id; in a batch, the index of the message is appended. */
const MAX_KEY = { one: MAX_ID, batch: MAX_ID - `/${MAX_BATCH - 1}`.length };

/** What the request headers contain about the message, or about each message of a batch, in the body. */
export function readEnvelope(
  headers: IncomingHttpHeaders,
  caller: string,
  holds: 'one' | 'batch',
  faults: Faults,
): Envelope {
  return {
    source: sourceOfCaller(caller),
    idempotencyKey: checkedHeader(headers, 'Idempotency-Key', MAX_KEY[holds], faults),
    traceparent: traceparentOf(headers),
    producer: producerOf(headers, caller, faults),
  };
}

/** Headers are not part of the body: their faults have an empty pointer and name the header. */
function checkedHeader(
  headers: IncomingHttpHeaders,
  name: string,
  maxLength: number,
  faults: Faults,
): string | undefined {
  const value = headers[name.toLowerCase()];
  if (typeof value !== 'string') return undefined;
  const text = headerText(value);
  if (text === undefined) return faults.add('', `the header ${name} is not UTF-8`);
  const own = new Faults();
  const checked = checkText(text, maxLength, '', own);
  for (const { detail } of own.list) faults.add('', `the header ${name} ${detail}`);
  return checked;
}

/** W3C trace context; a malformed one is ignored, as the standard requires. */
function traceparentOf(headers: IncomingHttpHeaders): string | undefined {
  const value = headers.traceparent;
  return typeof value === 'string' && /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/.test(value)
    ? value
    : undefined;
}

function producerOf(
  headers: IncomingHttpHeaders,
  caller: string,
  faults: Faults,
): ProducerSequence | undefined {
  const [given, counted] = [headers['producer-id'] !== undefined, headers['producer-sequence'] !== undefined];
  if (!given && !counted) return undefined;
  if (!given) return faults.add('', 'the header Producer-Id is required with Producer-Sequence');
  if (!counted) return faults.add('', 'the header Producer-Sequence is required with Producer-Id');
  const id = checkedHeader(headers, 'Producer-Id', MAX_ID, faults);
  const sequence = checkedHeader(headers, 'Producer-Sequence', 16, faults);
  if (id === undefined || sequence === undefined) return undefined;
  const number = /^\d+$/.test(sequence) ? Number(sequence) : Number.NaN;
  if (!Number.isSafeInteger(number + MAX_BATCH)) {
    return faults.add('', 'the header Producer-Sequence must be a whole number, 0 or more');
  }
  return { caller, id, sequence: number };
}
