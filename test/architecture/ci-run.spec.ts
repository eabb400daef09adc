import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from '@jest/globals';
import { ROOT } from '../support/built-service.ts';

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

interface Machine {
  readonly chromium?: boolean;
  /** What its exit code is; undefined: there is none. */
  readonly aptGet?: number;
  readonly root?: boolean;
}

/** The value of BROWSER_TESTS with which `.ci/run` starts the tests on a machine that has only these programs. */
function browserTestsOn(machine: Machine): string {
  const { output } = ciRunOn(machine);
  return /BROWSER_TESTS=<(.*)>/.exec(output)?.[1] ?? output;
}

function ciRunOn({ chromium = false, aptGet, root = true }: Machine) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-ci-run-'));
  folders.push(folder);
  const program = (name: string, body: string) => {
    writeFileSync(join(folder, name), `#!/bin/bash\n${body}\n`);
    chmodSync(join(folder, name), 0o755);
  };
  symlinkSync('/usr/bin/dirname', join(folder, 'dirname'));
  program('id', `echo ${root ? 0 : 1000}`);
  program('npm', 'printf "BROWSER_TESTS=<%s>" "$BROWSER_TESTS"');
  if (chromium) program('chromium', '');
  const calls = join(folder, 'calls');
  if (aptGet !== undefined) program('apt-get', `echo "$@" >>${calls}\nexit ${aptGet}`);
  const { stdout, stderr } = spawnSync('/bin/bash', [join(ROOT, '.ci/run')], {
    env: { PATH: folder, TMPDIR: folder },
    encoding: 'utf8',
  });
  return {
    output: stdout + stderr,
    aptGet: () => readFileSync(calls, 'utf8').trim().split('\n'),
  };
}

describe('E14 the tests of the console in .ci/run', () => {
  it.each<[string, Machine]>([
    ['a browser is there', { chromium: true }],
    ['it can be installed', { aptGet: 0 }],
    ['the installation failed', { aptGet: 100 }],
  ])('are required where %s', (_case, machine) => {
    expect(browserTestsOn(machine)).toBe('required');
  });

  it.each<[string, Machine]>([
    ['there is no apt-get', {}],
    ['apt-get may not be used', { aptGet: 0, root: false }],
  ])('may be skipped where %s', (_case, machine) => {
    expect(browserTestsOn(machine)).toBe('');
  });
});

describe('the installation of what the tests need', () => {
  it('goes on with the other packages when one cannot be installed', () => {
    const { output, aptGet } = ciRunOn({ aptGet: 100 });
    const installed = aptGet().filter((call) => call.startsWith('install '));
    for (const name of [
      'chromium',
      'pgbouncer',
      'nats-server',
      'rabbitmq-server',
      'patroni',
      'etcd-server',
    ]) {
      expect(installed).toContainEqual(expect.stringMatching(new RegExp(` ${name}$`)));
      expect(output).toContain(`could not install ${name}; the tests that need it say so`);
    }
  });
});
