import pg from 'pg';
import { Progress } from '../harness/progress.mjs';
import { keyOf, TEXT } from '../harness/workload.mjs';

/** The statements of pgmq 1.5 (read and delete), without the extension: it is plain SQL. */
const READ = `
  WITH cte AS (
    SELECT msg_id FROM q_bench WHERE vt <= clock_timestamp() ORDER BY msg_id ASC LIMIT $1 FOR UPDATE SKIP LOCKED
  )
  UPDATE q_bench m SET vt = clock_timestamp() + interval '30 seconds', read_ct = read_ct + 1
  FROM cte WHERE m.msg_id = cte.msg_id RETURNING m.msg_id, m.read_ct, m.enqueued_at, m.vt, m.message`;
const DELETE = 'DELETE FROM q_bench WHERE msg_id = ANY ($1) RETURNING msg_id';

export async function setup({ url }) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`
    CREATE TABLE q_bench (msg_id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, read_ct int DEFAULT 0 NOT NULL,
      enqueued_at timestamptz DEFAULT now() NOT NULL, vt timestamptz NOT NULL, message jsonb)`);
  await client.query('CREATE INDEX q_bench_vt_idx ON q_bench (vt ASC)');
  await client.end();
}

export async function seed({ url, messages }) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const keys = Array.from({ length: 1_000 }, (_, index) => keyOf(index));
  await client.query(
    `INSERT INTO q_bench (vt, message) SELECT clock_timestamp(), jsonb_build_object('key', ($1::text[])[1 + i % 1000], 'n', i, 'text', '${TEXT}')
     FROM generate_series(1, ${messages}) AS i`,
    [keys],
  );
  await client.query('VACUUM ANALYZE');
  await client.end();
}

/** Read and deleted in 100s. */
export async function drain({ url, complete, ...counts }) {
  const progress = new Progress(counts);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  for (;;) {
    const { rows } = await client.query({ name: 'read', text: READ, values: [progress.batch(100)] });
    if (rows.length === 0) break;
    await client.query({ name: 'delete', text: DELETE, values: [rows.map(({ msg_id }) => msg_id)] });
    progress.handled(rows.length);
  }
  const result = await progress.over();
  await client.end();
  return result;
}
