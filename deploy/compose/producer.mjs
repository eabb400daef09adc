// A producer for the demonstration: posts a candidate's application every second, to the replicas in
// turn. A message keeps its id when it is posted again, so a repeat is stored once, whoever took it.
// SLUICE_URLS (separated by spaces), API_KEY, COUNT (0: for ever), INTERVAL_MS (1000).
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';

const urls = (process.env.SLUICE_URLS ?? 'http://127.0.0.1:3000').split(/\s+/).filter(Boolean);
const count = Number(process.env.COUNT ?? 0) || Number.POSITIVE_INFINITY;
const intervalMs = Number(process.env.INTERVAL_MS ?? 1000);
const CANDIDATES = 10;

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(0));

for (let turn = 0; turn < count; turn++) {
  await send(candidateApplied(turn), turn);
  if (turn + 1 < count) await wait(intervalMs);
}

function candidateApplied(turn) {
  const candidateId = `c-${(turn % CANDIDATES) + 1}`;
  return {
    id: randomUUID(),
    type: 'urn:ekp:events/candidate-applied',
    key: candidateId,
    occurredAt: new Date().toISOString(),
    payload: { candidateId, vacancyId: 'v-1', name: `Candidate ${candidateId}` },
  };
}

/* Until it is accepted or refused for good; a replica that is away or busy hands over to the next. */
async function send(message, turn) {
  for (let attempt = 0; ; attempt++) {
    const url = urls[(turn + attempt) % urls.length];
    const outcome = await post(url, message);
    process.stdout.write(
      `${new Date().toISOString()} ${outcome.text} key=${message.key} id=${message.id} via ${url}\n`,
    );
    if (!outcome.again) return;
    await wait(outcome.afterMs);
  }
}

async function post(url, message) {
  try {
    const response = await fetch(`${url}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${process.env.API_KEY ?? ''}` },
      body: JSON.stringify(message),
      signal: AbortSignal.timeout(10_000),
    });
    const answer = await response.text();
    if (response.ok) return { text: `accepted ${response.status}`, again: false };
    const again = response.status === 429 || response.status >= 500;
    const afterMs = (Number(response.headers.get('retry-after')) || 1) * 1000;
    return { text: `refused ${response.status} ${JSON.stringify(answer.slice(0, 300))}`, again, afterMs };
  } catch (error) {
    return { text: `unreachable (${error.cause?.code ?? error.name})`, again: true, afterMs: 1000 };
  }
}
