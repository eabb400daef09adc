import pg from 'pg';
import { insertFinished } from '../harness/finished-messages.mjs';
import { LightClient } from '../harness/light-client.mjs';
import { Progress } from '../harness/progress.mjs';
import { listen } from '../harness/serving.mjs';
import { TYPE } from '../harness/workload.mjs';

export { setup } from './sluice.mjs';

export const PARTITIONS = 16;
export const GROUP = 'bench';

/** A topic with entries as the inbox would have written them, and a group that has read none of them. */
export async function seed({ url, messages }) {
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  await insertFinished(pool, messages);
  await pool.query(
    `INSERT INTO topic (revision, name, partitions, types, origin, created_by, updated_by)
     VALUES (1, 'bench', ${PARTITIONS}, $1, 'api', 'bench', 'bench'), (2, 'bench.dead', 1, '{}', 'group', 'bench', 'bench')`,
    [[TYPE]],
  );
  await pool.query(`
    INSERT INTO topic_entry (topic, partition, "offset", message, bytes)
    SELECT 1, lane % ${PARTITIONS}, row_number() OVER (PARTITION BY lane % ${PARTITIONS} ORDER BY position) - 1, position, 230 FROM inbox`);
  await pool.query(`
    INSERT INTO topic_partition (topic, partition, next)
    SELECT 1, partition, count(*) FROM topic_entry GROUP BY partition UNION ALL SELECT 2, 0, 0`);
  await pool.query(
    `INSERT INTO consumer_group (name, definition, topics, session_ms, max_in_flight, attempts, takeover, on_expired, origin, created_by, updated_by)
     VALUES ('${GROUP}', '{"start":"earliest"}', '{bench}', 30000, 100000, 5, 'drain', 'continue', 'api', 'bench', 'bench')`,
  );
  await pool.query('VACUUM ANALYZE');
  await pool.end();
}

/** One consumer over HTTP, the replica in a process of its own: 500 per poll, each poll commits the one before. */
export async function drain({ url, complete, ...counts }) {
  const replica = await listen('contenders/sluice.mjs', 'serve', { url, env: { ROLES: 'api' } });
  const progress = new Progress(counts, () => replica.send('warm'));
  const client = new LightClient(replica.url);
  const call = (what, body) => client.call('POST', `/v1/groups/${GROUP}/${what}`, body);
  const { member } = await call('members', {});
  let commit = [];
  while (!progress.isOver) {
    const { batches } = await call('poll', { member, max: progress.batch(500), commit });
    commit = batches.map(({ topic, partition, fence, to }) => ({ topic, partition, fence, offset: to }));
    progress.handled(batches.reduce((sum, { messages }) => sum + messages.length, 0));
  }
  const result = await progress.over();
  client.close();
  replica.send('over');
  replica.send('stop');
  const { nodeCpu } = await replica.result;
  return { ...result, nodeCpu: result.nodeCpu + nodeCpu };
}
