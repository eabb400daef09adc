import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { BENCH } from './paths.mjs';

const NEWER_NODE = ['linux-x64', 'linux-arm64', 'darwin-x64']
  .filter((platform) => platform === `${process.platform}-${process.arch}`)
  .map((platform) => join(BENCH, `node_modules/node-${platform}/bin/node`))
  .find(existsSync);

/** Peers need a newer Node than the service does; it comes with bench's own packages. */
export function nodeFor(need) {
  return need === 'newer' ? (NEWER_NODE ?? process.execPath) : process.execPath;
}

/** The Node flags of the image and of `npm start`; used for all contenders. */
const FLAGS = ['--max-semi-space-size=64'];

const running = new Set();

/** No verb takes longer unless it passes its own limit. Without one, a child that waits for something that never happens would block the run forever. */
const MAX_VERB_MS = 10 * 60_000;
const KILL_AFTER_MS = 5_000;

/** Kills the children when the runner ends, by their pid, never by name. */
process.on('exit', endChildren);

export function endChildren() {
  for (const child of running) child.kill('SIGTERM');
}

/**
 * Runs one verb of a module (a contender, a load) in its own process. `onMessage` gets its intermediate messages;
 * the last message, `{ done }`, is the result. After `maxMs` it is killed, and the run fails.
 */
export function runVerb(
  module,
  verb,
  options,
  { need, nodeFlags = [], onMessage = () => undefined, maxMs = MAX_VERB_MS } = {},
) {
  const child = spawn(
    nodeFor(need),
    [...FLAGS, ...nodeFlags, join(BENCH, 'harness/child.mjs'), module, verb, JSON.stringify(options)],
    { cwd: BENCH, stdio: ['ignore', 'inherit', 'inherit', 'ipc'], env: process.env },
  );
  running.add(child);
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    child.kill('SIGTERM');
    setTimeout(() => child.kill('SIGKILL'), KILL_AFTER_MS).unref();
  }, maxMs);
  const result = new Promise((resolve, reject) => {
    let done;
    child.on('message', (message) => {
      if ('done' in message) done = message;
      else onMessage(message);
    });
    child.once('error', reject);
    child.once('exit', (code, signal) => {
      clearTimeout(timer);
      running.delete(child);
      if (done) resolve(done.done);
      else if (timedOut) reject(new Error(`${module} ${verb} did not end within ${maxMs / 1000} s`));
      else reject(new Error(`${module} ${verb} ended with ${code ?? signal}`));
    });
  });
  // The caller that awaits the result gets the failure; a failure nobody awaits must not end the runner before it has cleaned up.
  result.catch(() => undefined);
  return { child, result, send: (message) => child.connected && child.send(message) };
}
