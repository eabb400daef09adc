import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { ROOT } from '../support/built-service.ts';

/** The check itself builds two versions: it is a separate command, run before a release. */
describe('npm run upgrade-check', () => {
  it('reports when it cannot run, and does not pass then', () => {
    const unknown = check(ROOT, ['--from', 'no-such-version']);
    expect([unknown.status, unknown.stderr]).toEqual([
      2,
      expect.stringContaining('git knows no "no-such-version"'),
    ]);

    const copy = mkdtempSync(join(tmpdir(), 'without-history-'));
    cpSync(join(ROOT, 'scripts'), join(copy, 'scripts'), { recursive: true });
    const none = check(copy, []);
    expect([none.status, none.stderr]).toEqual([
      2,
      expect.stringContaining('the history has no earlier version'),
    ]);
    rmSync(copy, { recursive: true });
  });
});

function check(folder: string, given: readonly string[]) {
  const env = { PATH: process.env.PATH, GIT_CEILING_DIRECTORIES: tmpdir() };
  return spawnSync(process.execPath, ['scripts/upgrade-check.mjs', ...given], {
    cwd: folder,
    env,
    encoding: 'utf8',
  });
}
