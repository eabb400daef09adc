import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Version } from './fleet.ts';

export type Previous = { readonly version: Version; remove(): void } | { readonly skipped: string };

/**
 * Builds the last earlier commit that changed the service, in a folder of its own. If later commits edited one of its
 * migrations, the two versions cannot share a schema; that is allowed only before the first release.
 */
export function buildPrevious(root: string, compile: (dist: string) => string): Previous {
  const git = (...args: string[]) => spawnSync('git', args, { cwd: root, encoding: 'utf8' });
  const commits = git('log', '-2', '--format=%H', '--', 'src', 'migrations').stdout.trim().split('\n');
  const commit = commits[1];
  if (!commit) return { skipped: 'the history has no earlier version' };
  const edited = git(
    'diff',
    '--name-only',
    '--diff-filter=MDR',
    commit,
    'HEAD',
    '--',
    'migrations',
  ).stdout.trim();
  if (edited) return { skipped: `${commit.slice(0, 7)} has other migrations of the same name: ${edited}` };
  const parent = mkdtempSync(join(tmpdir(), 'sluice-previous-'));
  const folder = join(parent, 'tree');
  const remove = () => {
    git('worktree', 'remove', '--force', folder);
    rmSync(parent, { recursive: true, force: true });
  };
  if (git('worktree', 'add', '--detach', folder, commit).status !== 0) {
    remove();
    return { skipped: `${commit.slice(0, 7)} could not be checked out` };
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  spawnSync(process.execPath, [join(root, 'node_modules/@nestjs/cli/bin/nest.js'), 'build'], { cwd: folder });
  if (!existsSync(join(folder, 'dist/src/main.js'))) {
    remove();
    return { skipped: `${commit.slice(0, 7)} could not be built` };
  }
  const compiled = compile(join(folder, 'dist'));
  return { version: { name: commit.slice(0, 7), folder: compiled, previous: true }, remove };
}
