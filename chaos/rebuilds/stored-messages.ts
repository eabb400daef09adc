import { decodeBlock } from '../../src/history/block-format.ts';
import type { MessageRow } from '../history.ts';
import type { Queries } from '../queries.ts';

/** One statement, so one snapshot: retention moves messages meanwhile. */
const STORED = `
  SELECT 'inbox' AS place, NULL::bytea AS body, json_build_object(
           'position', position, 'id', id, 'type', type, 'key', key, 'lane', lane, 'text', payload::text, 'status', status,
           'attempt', attempt, 'error', error, 'superseded_by', superseded_by) AS row
  FROM inbox WHERE source <> 'urn:sluice:alerts'
  UNION ALL SELECT 'history', body, NULL FROM archive_block
  UNION ALL SELECT 'identities', NULL, json_build_object('n', count(*)) FROM archive_id`;

type InboxRow = Omit<MessageRow, 'archived' | 'payload'>;

export interface StoredMessages {
  /** Of inbox and history, by position. */
  readonly messages: readonly MessageRow[];
  /** How many messages history answers duplicates for. */
  readonly identities: number;
}

export async function readMessages(database: Queries): Promise<StoredMessages> {
  const rows = await database.query<{ place: string; body: Buffer | null; row: unknown }>(STORED);
  const at = (place: string) => rows.filter((one) => one.place === place);
  const inbox = at('inbox').map(({ row }) => {
    const found = row as InboxRow;
    return { ...found, payload: JSON.parse(found.text), archived: false };
  });
  const blocks = await Promise.all(at('history').map(({ body }) => decodeBlock(body!)));
  const archived = blocks.flat().map(({ position, id, type, key, lane, payload }) => {
    const ended = { status: 'finished', attempt: 1, error: null, superseded_by: null };
    return {
      position,
      id,
      type,
      key,
      lane,
      text: payload,
      payload: JSON.parse(payload),
      ...ended,
      archived: true,
    };
  });
  const { n } = at('identities')[0]!.row as { n: number };
  return { messages: [...inbox, ...archived].sort((a, b) => a.position - b.position), identities: n };
}
