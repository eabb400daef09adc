// A consumer for the demonstration: a member of a consumer group that prints a line for each message it handles. Start as
// many as you like: they share the partitions of the topic.
// SLUICE_URLS (separated by spaces), API_KEY, GROUP (demo), NAME, WORK_MS (0): how long it works on a message.
import { setTimeout as wait } from 'node:timers/promises';
import { Reject, Sluice } from '@sluice/client/node';

const {
  SLUICE_URLS = 'http://127.0.0.1:3000',
  API_KEY,
  GROUP = 'demo',
  NAME = '',
  WORK_MS = '0',
} = process.env;
const log = (line) => process.stdout.write(`${new Date().toISOString()} ${line}\n`);

const sluice = new Sluice({
  url: SLUICE_URLS.split(/\s+/).filter(Boolean),
  apiKey: API_KEY || undefined,
  onEvent: ({ event, detail }) => log(`${event} ${detail}`),
});
const consumer = sluice.consumer({ group: GROUP, concurrency: 10, name: NAME || undefined });

for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, () => void consumer.stop({ timeout: '10s' }));

await consumer.run(async ({ topic, partition, offset, key, id, attempt, payload }) => {
  if (payload === null) throw new Reject('no payload');
  if (Number(WORK_MS) > 0) await wait(Number(WORK_MS));
  // Quoted, because it comes from outside: a key with a line break stays on its line.
  log(
    `handled ${topic}/${partition} offset=${offset} key=${JSON.stringify(key)} id=${id} attempt=${attempt}`,
  );
});
log('stopped');
sluice.close();
