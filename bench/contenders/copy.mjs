import pg from 'pg';
import { service } from '../harness/paths.mjs';
import { Progress } from '../harness/progress.mjs';
import { keyOf, payloadOf, TYPE } from '../harness/workload.mjs';

export { setup } from './sluice.mjs';

/**
 * The fastest way into the same table with the same indexes: COPY, one commit per batch. Nothing is checked, and
 * duplicates are not reported: one duplicate and the whole batch fails.
 */
export async function drain({ url, connections, batch, complete, ...counts }) {
  const { laneOf } = await service('lanes/lane-of.js');
  const progress = new Progress(counts);
  let index = 0;
  let over = false;
  const row = () => {
    const key = keyOf(index);
    const line = `m-${index}\tbench\t${TYPE}\t${key}\t${laneOf(key, 256)}\t${JSON.stringify(payloadOf(index))}\n`;
    index += 1;
    return line;
  };
  const work = async () => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    while (!over) {
      const rows = Array.from({ length: batch }, row).join('');
      await copy(client, 'COPY inbox (id, source, type, key, lane, payload) FROM STDIN', rows);
      progress.handled(batch);
    }
    await client.end();
  };
  const working = Array.from({ length: connections }, work);
  const result = await progress.over();
  over = true;
  await Promise.all(working);
  return result;
}

/** The interface of a node-postgres submittable: it receives the server's messages. */
function copy(client, sql, rows) {
  return new Promise((resolve, reject) => {
    client.query({
      submit: (connection) => void connection.query(sql),
      handleCopyInResponse: (connection) => {
        connection.sendCopyFromChunk(Buffer.from(rows));
        connection.endCopyFrom();
      },
      handleCommandComplete: () => undefined,
      handleReadyForQuery: resolve,
      handleError: reject,
    });
  });
}
