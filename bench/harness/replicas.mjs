import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { runVerb } from './process.mjs';

/** Warm-up per replica on average: code that a process has run only a few times is slow, however many processes there are. */
export const WARM_MESSAGES = 15_000;
const MAX_START_MS = 120_000;

/**
 * Several processes on one backlog. All are loaded before the first one starts to work; what counts is what all of them
 * handled in one window of time, so a replica that finds no free lane counts as nothing instead of blocking the round.
 * The backlog must outlast the window, or the round fails.
 */
export async function drainTogether(server, contender, url) {
  const { module, need, nodeFlags, replicas, seconds } = contender;
  const runs = Array.from({ length: replicas }, () =>
    runVerb(module, 'drainUntilStopped', { url }, { need, nodeFlags }),
  );
  const failed = Promise.race(runs.map(({ result }) => result.then(() => new Promise(() => undefined))));
  const ask = (word, reply) =>
    Promise.race([failed, Promise.all(runs.map((run) => replyFrom(run, word, reply)))]);
  await ask(undefined, 'loaded');
  await ask('go', 'started');
  while (sum(await ask('count', 'counted'), 'messages') < replicas * WARM_MESSAGES) await delay(250);

  const cpuBefore = server.cpuSeconds();
  const startedAt = performance.now();
  const before = await ask('count', 'counted');
  await Promise.race([failed, delay(seconds * 1000)]);
  const elapsed = (performance.now() - startedAt) / 1000;
  const after = await ask('count', 'counted');
  const postgresCpu = server.cpuSeconds() - cpuBefore;

  for (const run of runs) run.send('stop');
  const waiting = (await Promise.all(runs.map(({ result }) => result)))[0];
  if (waiting === 0)
    throw new Error(`the backlog of "${contender.label}" was over before the measurement was`);
  const messages = sum(after, 'messages') - sum(before, 'messages');
  return {
    rate: messages / elapsed,
    seconds: elapsed,
    nodeMicros: ((sum(after, 'nodeCpu') - sum(before, 'nodeCpu')) / messages) * 1e6,
    postgresMicros: (postgresCpu / messages) * 1e6,
    working: after.filter((one, index) => one.messages > before[index].messages).length,
  };
}

function sum(counts, field) {
  return counts.reduce((total, one) => total + one[field], 0);
}

async function replyFrom({ child, send }, word, reply) {
  const signal = AbortSignal.timeout(MAX_START_MS);
  const responded = (async () => {
    for (;;) {
      const [message] = await once(child, 'message', { signal });
      if (reply in message) return message[reply];
    }
  })();
  if (word) send(word);
  return responded;
}
