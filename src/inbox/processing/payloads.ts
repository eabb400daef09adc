import type { Database } from '../../database/database.ts';
import { splitByBytes } from '../../database/split-by-bytes.ts';
import type { Transaction } from '../../database/transaction.ts';
import type { ClaimedMessage } from '../claimed-message.ts';
import { PAYLOADS } from './payloads.sql.ts';

/** Max bytes that one transaction loads, unless one payload alone is larger: 512 messages of 1 MiB each would not fit into memory. */
const MAX_BYTES = 8 * 1024 * 1024;

export function isLoaded({ payload }: ClaimedMessage): boolean {
  return payload !== '';
}

/** In the same order; each part fits into memory as a whole. */
export function inParts(messages: readonly ClaimedMessage[]): ClaimedMessage[][] {
  return splitByBytes(messages, MAX_BYTES, ({ bytes }) => bytes);
}

/** Returns copies with their payloads; the given messages stay without, so that no more than one part is in memory. */
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
