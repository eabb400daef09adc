import { setTimeout as delay } from 'node:timers/promises';
import { twentyPerSecond, warmUp } from './latency.mjs';
import { LightClient } from './light-client.mjs';
import { receiveWebhooks } from './receiver.mjs';
import { POLLED_TYPE, PULLED_TYPE, TEXT, TYPE } from './workload.mjs';

const WAIT = '5s';
const BETWEEN_MS = 17;

/**
 * Milliseconds from the post to the webhook, to the response of a poll that waits, and to the response of a pull that waits:
 * in one service, interleaved at the same pace, all received by bare sockets.
 */
export async function postAndPoll({ service, seconds }) {
  const waiting = new Map();
  const arrived = ({ n }) => {
    waiting.get(n)?.(performance.now());
    waiting.delete(n);
  };
  const webhooks = await receiveWebhooks(arrived);
  const admin = new LightClient(service);
  for (const name of ['first', 'second']) await admin.call('DELETE', `/v1/listeners/${name}`);
  await admin.call('PUT', '/v1/listeners/latency', { types: [TYPE], url: `${webhooks.url}/hook` });
  await admin.call('PUT', '/v1/listeners/pulled', { types: [PULLED_TYPE], mode: 'pull' });
  await admin.call('PUT', '/v1/topics/polled', { types: [POLLED_TYPE], partitions: 16 });
  await admin.call('PUT', '/v1/groups/polled', { topics: ['polled'] });
  const consumers = [await pollAlways(service, arrived), await pullAlways(service, arrived)];

  const clients = [];
  const through = (type, name) => async (n) => {
    const client = clients.pop() ?? new LightClient(service);
    const startedAt = performance.now();
    const received = new Promise((resolve) => waiting.set(`${name}${n}`, resolve));
    const payload = { n: `${name}${n}`, text: TEXT };
    await client.call('POST', '/v1/messages', { type, key: `k-${n}`, payload });
    clients.push(client);
    return (await received) - startedAt;
  };
  const ways = {
    webhook: through(TYPE, 'w'),
    poll: through(POLLED_TYPE, 'p'),
    pull: through(PULLED_TYPE, 'q'),
  };
  for (const once of Object.values(ways)) {
    await warmUp(once);
    // A lone message takes another code path than one among many.
    await warmUp(once, 1);
  }
  process.send({ warm: true });
  const measuring = [];
  for (const once of Object.values(ways)) {
    measuring.push(twentyPerSecond(seconds, once));
    await delay(BETWEEN_MS);
  }
  const [webhook, poll, pull] = await Promise.all(measuring);
  process.send({ over: true });
  for (const consumer of consumers) consumer.stop();
  webhooks.close();
  for (const client of [admin, ...clients]) client.close();
  return { webhook, poll, pull };
}

/** A member of the group that polls again as soon as it has a response, and commits with that. */
async function pollAlways(service, arrived) {
  const call = (client, what, body) => client.call('POST', `/v1/groups/polled/${what}`, body);
  return always(service, async (client) => {
    const { member } = await call(client, 'members', {});
    let commit = [];
    return async () => {
      const { batches } = await call(client, 'poll', { member, max: 500, wait: WAIT, commit });
      for (const { messages } of batches) for (const { payload } of messages) arrived(payload);
      commit = batches.map(({ topic, partition, fence, to }) => ({ topic, partition, fence, offset: to }));
    };
  });
}

/** A consumer of the work queue that pulls again as soon as it has a response; it acknowledges on another connection. */
async function pullAlways(service, arrived) {
  const second = new LightClient(service);
  const call = (client, what, body) => client.call('POST', `/v1/listeners/pulled/${what}`, body);
  return always(service, async (client) => {
    let acknowledged = Promise.resolve();
    return async () => {
      const { messages } = await call(client, 'pull', { max: 50, wait: WAIT });
      for (const { payload } of messages) arrived(payload);
      const leases = messages.map(({ lease }) => lease);
      await acknowledged;
      if (leases.length) acknowledged = call(second, 'acknowledge', { acknowledge: leases });
    };
  });
}

/** Repeats until it is stopped; a failure before that fails the process. */
async function always(service, start) {
  const client = new LightClient(service);
  const once = await start(client);
  let stopped = false;
  const loop = async () => {
    while (!stopped) await once();
  };
  loop().catch((error) => {
    if (!stopped) throw error;
  });
  return {
    stop() {
      stopped = true;
      client.close();
    },
  };
}
