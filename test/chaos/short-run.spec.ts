import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { ROOT } from '../support/built-service.ts';

const folder = mkdtempSync(join(tmpdir(), 'sluice-short-run-'));
afterAll(() => rmSync(folder, { recursive: true }));

const FAULTS =
  'kill-at-point,freeze-at-point,freeze,cut-at-commit,backends,postgres-immediate,receivers,poison,skew';

/** `npm run chaos` does the same for longer, with more. */
async function chaos(...args: string[]) {
  const file = join(folder, 'result.json');
  const child = spawn(process.execPath, ['chaos/run.mjs', '--json', file, ...args], { cwd: ROOT });
  let told = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      told += text;
    });
  const [code] = await once(child, 'close');
  return { code, told, result: JSON.parse(readFileSync(file, 'utf8')) };
}

describe('two replicas under fire', () => {
  it('keep every promise: nothing lost, nothing twice, in order, signed, and nothing left behind', async () => {
    const { code, told, result } = await chaos(
      ...['--seed', '1', '--seconds', '7', '--replicas', '2', '--every', '0.8', '--faults', FAULTS],
    );
    expect([result.violations, code, told]).toEqual([[], 0, told]);
    expect(result.counts.finished).toBeGreaterThan(20);
    expect(Object.values<number>(result.struck).reduce((sum, n) => sum + n, 0)).toBeGreaterThan(1);
  }, 180_000);
});
