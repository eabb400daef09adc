import pg from 'pg';
import { Progress } from '../harness/progress.mjs';

export { seed, setup } from './sluice.mjs';

/**
 * What PostgreSQL itself can do on the same tables: claim, upsert, fan-out and finish in one statement per 500 messages,
 * on two connections. No application code sees a message; no order per key, no lease, no fence, no numbers per listener
 * and key, no retries.
 */
const ALL_AT_ONCE = `
  WITH batch AS MATERIALIZED (
    SELECT position, key, lane, payload FROM inbox WHERE settled_at IS NULL AND waits IS NULL
    ORDER BY lane, position LIMIT 500 FOR UPDATE SKIP LOCKED
  ),
  counted AS (
    INSERT INTO counter (key, n, last)
    SELECT key, count(*), max(payload->>'text') FROM batch GROUP BY key ORDER BY key
    ON CONFLICT (key) DO UPDATE SET n = counter.n + EXCLUDED.n, last = EXCLUDED.last
  ),
  fanned AS (
    INSERT INTO outbox (listener, lane, message, key, sequence)
    SELECT listener, listener * 256 + lane % 16, position, key, position
    FROM batch CROSS JOIN (VALUES (1), (2)) AS two(listener)
  )
  UPDATE inbox SET status = 'finished', attempt = 1, settled_at = now()
  WHERE position = ANY (ARRAY(SELECT position FROM batch))`;

export async function drain({ url, complete, ...counts }) {
  const progress = new Progress(counts);
  const pool = new pg.Pool({ connectionString: url, max: 2 });
  const work = async () => {
    for (;;) {
      const { rowCount } = await pool.query(ALL_AT_ONCE);
      if (rowCount === 0) return;
      progress.handled(rowCount);
    }
  };
  await Promise.all([work(), work()]);
  const result = await progress.over();
  await pool.end();
  return result;
}
