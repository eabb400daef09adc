import pg from 'pg';
import { Progress } from '../harness/progress.mjs';
import { PARTITIONS } from './sluice-topic.mjs';

export { setup } from './sluice.mjs';
export { seed } from './sluice-topic.mjs';

/** The same rows read and the same offsets stored by plain SQL from Node: no HTTP, no members, no fence, no limits. */
const READ = `
  SELECT entry.partition, entry."offset", inbox.id, inbox.source, inbox.type, inbox.key, inbox.headers, inbox.received_at, inbox.payload
  FROM bench_offset CROSS JOIN LATERAL (
    SELECT partition, "offset", message FROM topic_entry
    WHERE topic = 1 AND partition = bench_offset.partition AND "offset" > bench_offset.committed ORDER BY "offset" LIMIT $1
  ) AS entry
  JOIN inbox ON inbox.position = entry.message ORDER BY entry.partition, entry."offset"`;
const STORE = `
  UPDATE bench_offset SET committed = given.committed FROM unnest($1::int[], $2::bigint[]) AS given(partition, committed)
  WHERE bench_offset.partition = given.partition`;

export async function drain({ url, complete, ...counts }) {
  const progress = new Progress(counts);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(
    'CREATE TABLE bench_offset (partition int PRIMARY KEY, committed bigint NOT NULL) WITH (fillfactor = 25)',
  );
  await client.query(`INSERT INTO bench_offset SELECT generate_series(0, ${PARTITIONS - 1}), -1`);
  for (;;) {
    const limit = Math.ceil(progress.batch(500) / PARTITIONS);
    const { rows } = await client.query({ name: 'read', text: READ, values: [limit] });
    if (rows.length === 0) break;
    const last = new Map(rows.map(({ partition, offset }) => [partition, offset]));
    await client.query({ name: 'store', text: STORE, values: [[...last.keys()], [...last.values()]] });
    progress.handled(rows.length);
  }
  const result = await progress.over();
  await client.end();
  return result;
}
