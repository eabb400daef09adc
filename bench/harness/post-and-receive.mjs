import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { Pool } from 'undici';
import { twentyPerSecond, warmUp } from './latency.mjs';
import { receiveWebhooks } from './receiver.mjs';
import { TEXT, TYPE } from './workload.mjs';

/**
 * Posts to the service and receives its webhooks: milliseconds from the post to the webhook. Interleaved at the same pace, the
 * baseline that any implementation has to pay: one committed insert and one HTTP round trip with another process. Both are
 * received by bare sockets.
 */
export async function postAndReceive({ service, receiver, database, seconds }) {
  const waiting = new Map();
  const webhooks = await receiveWebhooks(({ n }) => {
    waiting.get(n)?.(performance.now());
    waiting.delete(n);
  });
  const [toService, toReceiver] = [service, receiver].map((url) => new Pool(url, { connections: 8 }));
  const post = async (pool, method, path, body) => {
    const headers = body === undefined ? {} : { 'content-type': 'application/json' };
    const text = body === undefined ? undefined : JSON.stringify(body);
    const response = await pool.request({ path, method, headers, body: text });
    await response.body.dump();
    if (response.statusCode >= 300) throw new Error(`${method} ${path}: ${response.statusCode}`);
  };
  for (const name of ['first', 'second']) await post(toService, 'DELETE', `/v1/listeners/${name}`);
  await post(toService, 'PUT', '/v1/listeners/latency', { types: [TYPE], url: `${webhooks.url}/hook` });
  const client = new pg.Client({ connectionString: database });
  await client.connect();
  await client.query(
    'CREATE TABLE least (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload json NOT NULL)',
  );

  const throughService = async (n) => {
    const startedAt = performance.now();
    const arrived = new Promise((resolve) => waiting.set(n, resolve));
    await post(toService, 'POST', '/v1/messages', { type: TYPE, key: `k-${n}`, payload: { n, text: TEXT } });
    return (await arrived) - startedAt;
  };
  const theLeast = async (n) => {
    const startedAt = performance.now();
    const data = { n: `least-${n}`, text: TEXT };
    await client.query('INSERT INTO least (payload) VALUES ($1)', [JSON.stringify(data)]);
    await post(toReceiver, 'POST', '/ok', { data });
    return performance.now() - startedAt;
  };
  await warmUp(throughService);
  // A lone message takes another code path than one among many.
  await warmUp(throughService, 1);
  await warmUp(theLeast, 1);

  process.send({ warm: true });
  const ours = twentyPerSecond(seconds, throughService);
  await delay(25);
  const least = twentyPerSecond(seconds, theLeast);
  const result = { ours: await ours, least: await least };
  process.send({ over: true });
  await Promise.all([client.end(), toService.close(), toReceiver.close()]);
  webhooks.close();
  return result;
}
