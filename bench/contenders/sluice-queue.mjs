import { LightClient } from '../harness/light-client.mjs';
import { Progress } from '../harness/progress.mjs';
import { listen } from '../harness/serving.mjs';
import { seed as seedDeliveries } from './sluice-outbox.mjs';

export { setup } from './sluice-outbox.mjs';

const QUEUE = 'queue';

/** Finished messages, each with a delivery that waits to be pulled. */
export function seed({ url, messages }) {
  return seedDeliveries({ url, messages, listeners: [{ name: QUEUE, mode: 'pull' }] });
}

/** Pulled and acknowledged over HTTP by workers that do nothing with them; the replica is a process of its own. */
export async function drain({ url, complete, workers, batch, ...counts }) {
  const replica = await listen('contenders/sluice.mjs', 'serve', { url, env: { ROLES: 'api' } });
  const progress = new Progress(counts, () => replica.send('warm'));
  const work = async () => {
    const client = new LightClient(replica.url);
    const call = (what, body) => client.call('POST', `/v1/listeners/${QUEUE}/${what}`, body);
    while (!progress.isOver) {
      const { messages } = await call('pull', { max: progress.batch(batch) });
      if (messages.length === 0) break;
      const { leases } = await call('acknowledge', { acknowledge: messages.map(({ lease }) => lease) });
      progress.handled(leases.filter(({ outcome }) => outcome === 'done').length);
    }
    client.close();
  };
  await Promise.all(Array.from({ length: workers }, work));
  const result = await progress.over();
  replica.send('over');
  replica.send('stop');
  const { nodeCpu } = await replica.result;
  return { ...result, nodeCpu: result.nodeCpu + nodeCpu };
}
