import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { Pool } from 'undici';
import { keyOf, TEXT, TYPE } from './workload.mjs';

const CONNECTIONS = 32;
/** Posted and not yet received: enough to keep every part busy without building a backlog. */
const MAX_ON_THE_WAY = 4_000;

const WARM_MESSAGES = 10_000;

const SIZES = `
  SELECT sum(pg_table_size(oid))::float8 AS tables, sum(pg_indexes_size(oid))::float8 AS indexes
  FROM pg_class WHERE oid IN ('inbox'::regclass, 'outbox'::regclass, 'lane'::regclass, 'hold'::regclass,
                              'delivery_sequence'::regclass, 'attempt'::regclass)`;

/**
 * Posts and receives the webhooks as fast as possible. Returns for each third of the time how many were received, by how much
 * tables and indexes grew, and how large they were at its end.
 */
export async function sustain({ service, database, seconds, warmSeconds = 0 }) {
  let received = 0;
  const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    request.resume();
    request.on('end', () => {
      received += 1;
      response.writeHead(204).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const own = `http://127.0.0.1:${server.address().port}`;
  const pool = new Pool(service, { connections: CONNECTIONS, pipelining: 1 });
  const call = async (method, path, body) => {
    const headers = body ? { 'content-type': 'application/json' } : {};
    const result = await pool.request({ path, method, headers, body: body && JSON.stringify(body) });
    await result.body.dump();
    if (result.statusCode >= 300) throw new Error(`${method} ${path}: ${result.statusCode}`);
  };
  for (const name of ['first', 'second']) await call('DELETE', `/v1/listeners/${name}`);
  await call('PUT', '/v1/listeners/sustained', { types: [TYPE], url: `${own}/hook`, lanes: 64 });
  const client = new pg.Client({ connectionString: database });
  await client.connect();

  let posted = 0;
  let over = false;
  const post = async () => {
    while (!over) {
      if (posted - received > MAX_ON_THE_WAY) await delay(2);
      else {
        posted += 1;
        await call('POST', '/v1/messages', {
          type: TYPE,
          key: keyOf(posted),
          payload: { n: posted, text: TEXT },
        });
      }
    }
  };
  const posting = Array.from({ length: CONNECTIONS }, post);
  // Warm-up: without it the first third would be the slowest, and the comparison always in favour of the last.
  for (let waits = 0; waits < 60 && received < WARM_MESSAGES; waits++) await delay(1_000);
  await delay(warmSeconds * 1_000);
  process.send({ warm: true });
  const thirds = [];
  for (let third = 0; third < 3; third++) {
    const before = { received, at: performance.now(), ...(await sizes(client)) };
    await delay((seconds * 1_000) / 3);
    const messages = received - before.received;
    const after = await sizes(client);
    thirds.push({
      messages,
      rate: messages / ((performance.now() - before.at) / 1_000),
      tableBytes: (after.tables - before.tables) / messages,
      indexBytes: (after.indexes - before.indexes) / messages,
      tablesAfter: after.tables / 2 ** 20,
      indexesAfter: after.indexes / 2 ** 20,
    });
  }
  process.send({ over: true });
  over = true;
  await Promise.all(posting);
  for (let waits = 0; waits < 100 && received < posted; waits++) await delay(100);
  await client.end();
  await pool.close();
  server.closeAllConnections();
  server.close();
  return thirds;
}

async function sizes(client) {
  const { rows } = await client.query(SIZES);
  return rows[0];
}
