// Prepares `npm start` and `npm test` with nothing but Node: installs the packages and builds.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export { checkNode } from './check-node.mjs';

export const root = fileURLToPath(new URL('..', import.meta.url));

/** Runs one command in the project's folder; a failure ends the process with its exit code. */
export function run(command, args, options = {}) {
  const result = spawnSync(command, args, {
    cwd: root,
    stdio: 'inherit',
    shell: process.platform === 'win32',
    ...options,
  });
  if (result.error) throw result.error;
  if (result.status !== 0) process.exit(result.status ?? 1);
}

/** Runs `npm ci` only if the installed packages differ from the lock file, so that it works offline once installed. */
export function install(log = console.log, folder = '.') {
  const cwd = join(root, folder);
  if (installed(cwd)) return;
  log(`installing packages (npm ci${folder === '.' ? '' : ` in ${folder}`}) …`);
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  run('npm', args, { cwd, stdio: ['ignore', 2, 2] });
}

/** A package that is optional may be missing: it is for another platform. */
function installed(folder) {
  const wanted = packages(join(folder, 'package-lock.json'));
  const there = packages(join(folder, 'node_modules/.package-lock.json'));
  if (!wanted || !there) return false;
  return Object.entries(wanted).every(
    ([path, entry]) =>
      path === '' || (entry.optional && !there[path]) || there[path]?.version === entry.version,
  );
}

function packages(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8')).packages;
  } catch {
    return undefined;
  }
}

/** Compiles only if a source is newer than the last build. */
export function build(log = console.log) {
  const builtAt = Math.min(...['dist', 'packages/client/dist'].map((path) => newest(join(root, path))));
  const sources = [
    'src',
    'console',
    'packages/client/src',
    'migrations',
    'tsconfig.json',
    'tsconfig.build.json',
  ];
  sources.push('package-lock.json', 'scripts/build-console.mjs', 'docs/operating.md');
  if (builtAt > Math.max(...sources.map((path) => newest(join(root, path))))) return;
  log('building …');
  run('npm', ['run', '--silent', 'build'], { stdio: ['ignore', 2, 2] });
}

function newest(path) {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) return 0;
  if (!stat.isDirectory()) return stat.mtimeMs;
  return Math.max(0, ...readdirSync(path).map((name) => newest(join(path, name))));
}
