// Removing a day of messages: batched deletes from one table against dropping a partition. ADR 0007 has a run.
// DATABASE_URL=… node bench/retention.mjs [rows]; in a schema of its own, which it drops.
import pg from 'pg';
import { log } from './harness/log.mjs';

const ROWS = Number(process.argv[2] ?? 200_000);
const BATCH = 100;
const STRETCH = 2_000;
const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
await client.connect();
await client.query('DROP SCHEMA IF EXISTS retention_bench CASCADE; CREATE SCHEMA retention_bench');
await client.query('SET search_path TO retention_bench; SET jit = off; SET synchronous_commit = off');

const COLUMNS = `position bigint NOT NULL, id text NOT NULL, source text NOT NULL, key text NOT NULL, lane int NOT NULL,
  payload json NOT NULL, status text NOT NULL, received_at timestamptz NOT NULL, settled_at timestamptz`;
const INDEXES = (table) => `
  CREATE INDEX ON ${table} (lane, position) WHERE settled_at IS NULL;
  CREATE INDEX ON ${table} (key, position);`;
await client.query(`
  CREATE TABLE one (${COLUMNS}, PRIMARY KEY (position)) WITH (autovacuum_enabled = off);
  CREATE UNIQUE INDEX ON one (id, source); ${INDEXES('one')}
  CREATE TABLE days (${COLUMNS}, PRIMARY KEY (received_at, position)) PARTITION BY RANGE (received_at);
  CREATE TABLE day_1 PARTITION OF days FOR VALUES FROM ('2026-01-01') TO ('2026-01-02');
  CREATE TABLE day_2 PARTITION OF days FOR VALUES FROM ('2026-01-02') TO ('2026-01-03');
  CREATE INDEX ON days (id, source); ${INDEXES('days')}
  CREATE TABLE known (id text, source text, received_at timestamptz, PRIMARY KEY (id, source)) WITH (autovacuum_enabled = off);
  CREATE INDEX ON known (received_at);`);

const SOURCE = (first) => `
  SELECT $1::bigint + n AS position, md5(($1::bigint + n)::text) AS id, 'urn:s' AS source, 'k' || (n % 1000) AS key, n % 256 AS lane,
         '{"candidateId":"c-1","note":"${'x'.repeat(200)}"}'::json AS payload, 'finished' AS status,
         timestamptz '2026-01-0${first}' + n * interval '1 millisecond' AS received_at, now() AS settled_at
  FROM generate_series(1, ${BATCH}) AS n`;

const timed = async (work) => {
  const start = process.hrtime.bigint();
  await work();
  return Number(process.hrtime.bigint() - start) / 1e6;
};
const fill = (insert) => async () => {
  for (let at = 0; at < ROWS; at += BATCH) await client.query(insert(1), [at]);
  for (let at = ROWS; at < ROWS * 2; at += BATCH) await client.query(insert(2), [at]);
};
const batched = (sql) => async () => {
  for (let removed = STRETCH; removed > 0; ) ({ rowCount: removed } = await client.query(sql));
};

const ingest = {
  one: await timed(fill((day) => `INSERT INTO one ${SOURCE(day)} ON CONFLICT DO NOTHING`)),
  days: await timed(
    fill(
      (day) => `WITH posted AS MATERIALIZED (${SOURCE(day)}),
        fresh AS (INSERT INTO known SELECT id, source, received_at FROM posted ON CONFLICT DO NOTHING RETURNING id, source)
        INSERT INTO days SELECT posted.* FROM posted JOIN fresh USING (id, source)`,
    ),
  ),
};
const removal = {
  one: await timed(
    batched(`DELETE FROM one WHERE position = ANY (ARRAY(
      SELECT position FROM one WHERE received_at < '2026-01-02' ORDER BY position LIMIT ${STRETCH}))`),
  ),
  'vacuum one': await timed(() => client.query('VACUUM one')),
  'drop day': await timed(() => client.query('DROP TABLE day_1')),
  'known ids': await timed(
    batched(`DELETE FROM known WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM known WHERE received_at < '2026-01-02' ORDER BY received_at LIMIT ${STRETCH}))`),
  ),
  'vacuum known': await timed(() => client.query('VACUUM known')),
};
const perRow = (ms, rows) => `${((ms * 1000) / rows).toFixed(1)} µs per row`;
for (const [name, ms] of Object.entries(ingest)) log(`ingest ${name}: ${perRow(ms, ROWS * 2)}`);
for (const [name, ms] of Object.entries(removal)) log(`${name}: ${ms.toFixed(0)} ms, ${perRow(ms, ROWS)}`);
const sizes = await client.query(`
  SELECT pg_size_pretty(pg_total_relation_size('one')) AS one,
         pg_size_pretty(pg_total_relation_size('day_2') + pg_total_relation_size('known')) AS days`);
log(`left on disk: one ${sizes.rows[0].one}, days ${sizes.rows[0].days}`);
await client.query('DROP SCHEMA retention_bench CASCADE');
await client.end();
