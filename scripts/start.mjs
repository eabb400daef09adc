// `npm start`: from a fresh clone to a running service.
//
// npm forwards SIGTERM and SIGINT to its child, which is a shell. Debian's does not forward them, and npm exits with it: so
// the script in package.json replaces the shell by `exec`. What comes after `||` is for shells without it (cmd.exe).

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, checkNode, install, root } from './ready.mjs';

const parent = process.ppid;

checkNode();
install();
build();
if (process.env.npm_lifecycle_event === 'start') stopWithoutParent();
process.chdir(root);
await import(pathToFileURL(join(root, 'dist/src/main.js')));

/**
 * npm forwards neither SIGKILL nor the SIGHUP of a closed terminal, and nobody could stop the service by the pid of
 * `npm start` any more. Started without npm it may outlive its parent, as a daemon does.
 */
function stopWithoutParent() {
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    process.kill(process.pid, 'SIGHUP');
  }, 500);
  timer.unref();
}
