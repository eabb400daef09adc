// A producer for the demonstration: sends a candidate's application every second. It reaches the read model, the receiver as
// a webhook, and the consumers of the topic.
// SLUICE_URLS (separated by spaces), API_KEY, PRODUCER_ID (demo), COUNT (0: for ever), INTERVAL_MS (1000).
import { setTimeout as wait } from 'node:timers/promises';
import { Sluice } from '@sluice/client/node';

const { SLUICE_URLS = 'http://127.0.0.1:3000', API_KEY, PRODUCER_ID = 'demo' } = process.env;
const count = Number(process.env.COUNT ?? 0) || Number.POSITIVE_INFINITY;
const intervalMs = Number(process.env.INTERVAL_MS ?? 1000);
const CANDIDATES = 10;
const log = (line) => process.stdout.write(`${new Date().toISOString()} ${line}\n`);

const sluice = new Sluice({
  url: SLUICE_URLS.split(/\s+/).filter(Boolean),
  apiKey: API_KEY || undefined,
  onEvent: ({ event, detail }) => log(`${event} ${detail}`),
});
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => stop.abort());

const producer = await sluice.producer({ id: PRODUCER_ID });
for (let turn = 0; turn < count && !stop.signal.aborted; turn++) {
  const message = candidateApplied(turn);
  // A send that fails ends the process; what starts it again continues with the next number.
  const { id, duplicate, gap } = await producer.send(message);
  log(
    `accepted key=${message.key} id=${id}${duplicate ? ' duplicate' : ''}${gap ? ` gap=${gap.from}-${gap.to}` : ''}`,
  );
  if (turn + 1 < count) await wait(intervalMs, undefined, { signal: stop.signal }).catch(() => undefined);
}
await producer.close();
sluice.close();

function candidateApplied(turn) {
  const candidateId = `c-${(turn % CANDIDATES) + 1}`;
  return {
    topic: 'candidates',
    type: 'urn:ekp:events/candidate-applied',
    key: candidateId,
    occurredAt: new Date(),
    payload: { candidateId, vacancyId: 'v-1', name: `Candidate ${candidateId}` },
  };
}
