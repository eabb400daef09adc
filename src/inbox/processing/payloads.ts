import type { Database } from '../../database/database.ts';
import { splitByBytes } from '../../database/split-by-bytes.ts';
import type { Transaction } from '../../database/transaction.ts';
import type { ClaimedMessage } from '../claimed-message.ts';
import { PAYLOADS } from './payloads.sql.ts';

/** What one transaction loads, unless one payload alone is larger: a claim of 512 messages of 1 MiB would fill any memory. */
const MAX_BYTES = 8 * 1024 * 1024;

export function isLoaded({ payload }: ClaimedMessage): boolean {
  return payload !== '';
}

/** In their order; each part can be in memory as a whole. */
export function inParts(messages: readonly ClaimedMessage[]): ClaimedMessage[][] {
  return splitByBytes(messages, MAX_BYTES, ({ bytes }) => bytes);
}

/** The same messages with their payloads; those that are given stay without, so that nobody keeps more than a part. */
export async function withPayloads(
  messages: readonly ClaimedMessage[],
  database: Pick<Database | Transaction, 'query'>,
): Promise<ClaimedMessage[]> {
  const missing = messages.filter((message) => !isLoaded(message)).map(({ position }) => position);
  if (missing.length === 0) return [...messages];
  const rows = await database.query<{ position: number; payload: string }>(PAYLOADS, [missing]);
  const found = new Map(rows.map(({ position, payload }) => [position, payload]));
  return messages.map((message) => {
    const payload = found.get(message.position);
    return payload === undefined ? message : { ...message, payload };
  });
}
