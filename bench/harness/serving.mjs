import { runVerb } from './process.mjs';

/** Longer than any load takes. */
const MAX_SERVING_MS = 60 * 60_000;

/** Starts a verb that reports its URL and runs until it receives `stop`. */
export async function listen(module, verb, options, { need } = {}) {
  let running;
  const url = await new Promise((resolve, reject) => {
    const onMessage = (message) => message.url && resolve(message.url);
    running = runVerb(module, verb, options, { need, onMessage, maxMs: MAX_SERVING_MS });
    running.result.catch(reject);
  });
  return { ...running, url };
}

/**
 * One round of a contender that serves, on a database of its own, while `load` runs: `load(target, database, onMessage)`.
 * The load's messages mark the start and the end of the CPU measurement. Returns the result of `load`, and the CPU.
 */
export async function whileServing(server, { module, need, env }, load) {
  const database = await server.create('round');
  await runVerb(module, 'setup', { url: database }, { need }).result;
  await server.settle();
  const serving = await listen(module, 'serve', { url: database, env }, { need });
  let before;
  let after;
  const loaded = await load(serving.url, database, ({ warm }) => {
    if (warm) before = server.cpuSeconds();
    else after = server.cpuSeconds();
    serving.send(warm ? 'warm' : 'over');
  });
  serving.send('stop');
  const { nodeCpu } = await serving.result;
  await server.drop('round');
  const cpuOver = (messages) => ({
    nodeMicros: (nodeCpu / messages) * 1e6,
    postgresMicros: after === undefined ? undefined : ((after - before) / messages) * 1e6,
  });
  return { loaded, cpuOver };
}
