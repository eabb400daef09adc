import { isAscii, isUtf8 } from 'node:buffer';
import { JsonWalker, type ScanOptions, type ScanResult } from './json-walker.ts';

export type { JsonFault, JsonFaultCode } from './json-fault.ts';
export type { JsonSlice } from './json-outline.ts';
export type { ScanOptions, ScanResult } from './json-walker.ts';

/** Shared: a scan is synchronous, and its arrays are reused by the next one. */
const walker = new JsonWalker();
const NO_OPTIONS: ScanOptions = {};

/**
 * Checks in one pass whether JavaScript and PostgreSQL both represent a JSON text exactly, and finds where its values
 * begin and end. So a payload is stored as it was sent, without being parsed and serialized again.
 *
 * It rejects what would otherwise be altered silently or fail late: jsonb fails on NUL and lone surrogates and keeps
 * only the last of two equal keys; JSON.parse rounds numbers and passes `__proto__` on to the next merge.
 *
 * Measured against JSON.parse alone: a 374-byte message 1.7 µs against 1.7, a batch of 92 KB 235 MB/s (outline 3)
 * against 200. Slower: a string of 100 KB 0.6 GB/s, numbers of 16 and 17 digits 0.3 µs each.
 */
export class ExactJson {
  /** Never throws; returns the first fault of a text that is not accepted. */
  static scan(text: string, options: ScanOptions = NO_OPTIONS): ScanResult {
    return walker.scan(text, options);
  }
}

/** The text of a body; undefined if it is not UTF-8. A byte order mark is kept, and the scan rejects it. */
export function decodeUtf8(body: Buffer): string | undefined {
  if (isAscii(body)) return body.toString('latin1');
  return isUtf8(body) ? body.toString('utf8') : undefined;
}
