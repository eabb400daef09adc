import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { BENCH } from './places.mjs';

const NEWER_NODE = ['linux-x64', 'linux-arm64', 'darwin-x64']
  .filter((platform) => platform === `${process.platform}-${process.arch}`)
  .map((platform) => join(BENCH, `node_modules/node-${platform}/bin/node`))
  .find(existsSync);

/** Peers need a newer Node than the service does; it comes with bench's own packages. */
export function nodeFor(need) {
  return need === 'newer' ? (NEWER_NODE ?? process.execPath) : process.execPath;
}

/** As the image and `npm start` have it; for everybody. */
const FLAGS = ['--max-semi-space-size=64'];

const running = new Set();

/** Whatever happens to the runner, its children go with it; by their pid, never by name. */
process.on('exit', endChildren);

export function endChildren() {
  for (const child of running) child.kill('SIGKILL');
}

/**
 * Runs one verb of a module (a contender, a load) in a process of its own. `onMessage` gets what it sends on the way;
 * the last message, `{ done }`, is the result.
 */
export function runVerb(module, verb, options, { need, nodeFlags = [], onMessage = () => undefined } = {}) {
  const child = spawn(
    nodeFor(need),
    [...FLAGS, ...nodeFlags, join(BENCH, 'harness/child.mjs'), module, verb, JSON.stringify(options)],
    { cwd: BENCH, stdio: ['ignore', 'inherit', 'inherit', 'ipc'], env: process.env },
  );
  running.add(child);
  const result = new Promise((resolve, reject) => {
    let done;
    child.on('message', (message) => {
      if ('done' in message) done = message;
      else onMessage(message);
    });
    child.once('error', reject);
    child.once('exit', (code, signal) => {
      running.delete(child);
      if (done) resolve(done.done);
      else reject(new Error(`${module} ${verb} ended with ${code ?? signal}`));
    });
  });
  // Whoever awaits it gets the failure; one that nobody awaits any more must not end the runner before it has cleaned up.
  result.catch(() => undefined);
  return { child, result, tell: (message) => child.connected && child.send(message) };
}
