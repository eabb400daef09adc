import { describe, expect, it } from '@jest/globals';
import { sharedReplica } from '../../test/support/shared-replica.ts';
import { Retention } from '../upkeep/retention/retention.ts';
import { HistoryUpkeep } from './history-upkeep.ts';

const { database, replica } = sharedReplica({
  ROLES: 'api,upkeep',
  RETENTION_FINISHED: '1h',
  HISTORY: '*=forever',
});

const MESSAGES = 10_000;
const WORDS =
  'candidate accepted vacancy senior engineer remote contract interview schedule Amsterdam Utrecht monday available reference salary team review portfolio invite status note'.split(
    ' ',
  );

/** A payload of about that many bytes: ids, a time, a number, and text. */
function payload(bytes: number, n: number): string {
  const head = {
    candidateId: crypto.randomUUID(),
    at: new Date(1.7e12 + n * 1_234).toISOString(),
    score: n % 97,
  };
  const missing = bytes - JSON.stringify({ ...head, text: '' }).length;
  let text = '';
  while (text.length < missing) text += `${WORDS[Math.floor(Math.random() * WORDS.length)]} `;
  return JSON.stringify({ ...head, text });
}

async function bytesOf(...tables: string[]): Promise<number> {
  const [row] = await database.query<{ bytes: string }>(
    `SELECT sum(pg_total_relation_size(oid)) AS bytes FROM pg_class
     WHERE relkind = 'r' AND EXISTS (SELECT FROM unnest($1::text[]) AS name WHERE starts_with(relname, name))`,
    [tables],
  );
  return Number(row!.bytes) / MESSAGES;
}

describe('the size of history', () => {
  it.each([133, 649, 4_096])(
    'is a fraction of that of the inbox, for payloads of %i bytes',
    async (bytes) => {
      await database.query('TRUNCATE inbox, archive_block, archive_id');
      const payloads = Array.from({ length: MESSAGES }, (_, n) => payload(bytes, n));
      await database.query(
        `INSERT INTO inbox (id, source, type, key, lane, payload, status, applied, received_at, settled_at)
       SELECT gen_random_uuid(), 'urn:sluice:api-keys/crm', 'urn:ekp:events/candidate-accepted', 'candidate-' || n % 3000,
              (n % 3000) * 7 % 256, p::json, 'finished', n / 300, now() - interval '1 day', now() - interval '1 day'
       FROM unnest($1::text[]) WITH ORDINALITY AS posted(p, n)`,
        [payloads],
      );
      const before = await bytesOf('inbox');
      await replica.app.nest.get(Retention).sweep();
      const swept = await bytesOf('archive_block', 'archive_id');
      await replica.app.nest.get(HistoryUpkeep).run();
      await database.query('VACUUM FULL archive_block');
      const [blocks, ids] = [await bytesOf('archive_block'), await bytesOf('archive_id')];
      if (process.env.HISTORY_SIZES)
        process.stdout.write(
          `${bytes} B: inbox ${before.toFixed(0)}, blocks ${blocks.toFixed(0)}, ids ${ids.toFixed(0)}, ratio ${((blocks + ids) / before).toFixed(3)}, before merging ${(swept / before).toFixed(3)}\n`,
        );
      expect((blocks + ids) / before).toBeLessThan(0.4);
      expect(swept / before).toBeLessThan(0.4);
    },
  );
});
