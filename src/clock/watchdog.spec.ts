import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { transformSync } from '@swc/core';

/** Runs the watchdog in a child process, because it kills the process it runs in. */
async function run(body: string): Promise<{ code: number | null; signal: string | null; stderr: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-watchdog-'));
  const source = readFileSync(new URL('./watchdog.ts', import.meta.url), 'utf8');
  const { code } = transformSync(source, { jsc: { parser: { syntax: 'typescript' }, target: 'es2022' } });
  writeFileSync(join(folder, 'watchdog.mjs'), code);
  writeFileSync(join(folder, 'main.mjs'), `import { startWatchdog } from './watchdog.mjs';\n${body}`);
  const child = spawn(process.execPath, [join(folder, 'main.mjs')], { stdio: ['ignore', 'ignore', 'pipe'] });
  let stderr = '';
  child.stderr.on('data', (text) => {
    stderr += text;
  });
  const [exitCode, signal] = await once(child, 'close');
  return { code: exitCode, signal, stderr };
}

describe('watchdog', () => {
  it('kills a process whose event loop is blocked, and logs why', async () => {
    const { signal, stderr } = await run('startWatchdog(200); setTimeout(() => { for (;;) {} }, 50);');
    expect(signal).toBe('SIGKILL');
    expect(JSON.parse(stderr)).toMatchObject({ level: 'fatal', event: 'service.stuck' });
  });

  it('does not kill a process that is busy but not blocked, and does not keep a process alive', async () => {
    const busy =
      'let n = 0; const t = setInterval(() => { const end = Date.now() + 60; while (Date.now() < end); if (++n === 8) clearInterval(t); }, 1);';
    expect(await run(`startWatchdog(400); ${busy}`)).toEqual({ code: 0, signal: null, stderr: '' });
  });
});
