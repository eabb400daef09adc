// `npm start`: from a fresh clone to a running service.
//
// npm forwards SIGTERM and SIGINT to its child, which is a shell. The shell of Debian does not forward them, and npm exits
// with it. So the script in package.json replaces the shell by `exec`. The part after `||` is for shells without it (cmd.exe).

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
 * npm forwards neither SIGKILL nor the SIGHUP of a closed terminal; the service would go on, and could no longer be stopped
 * by the pid of `npm start`. Started without npm it may outlive its parent, as a daemon does.
 */
function stopWithoutParent() {
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    process.kill(process.pid, 'SIGHUP');
  }, 500);
  timer.unref();
}
