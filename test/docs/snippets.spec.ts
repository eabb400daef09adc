import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { build, ROOT, run } from '../support/built-service.ts';
import { createDatabase } from '../support/database.ts';
import { reportSkipped } from '../support/report-skipped.ts';
import { runnableParts } from './markdown.ts';
import { hasTools, openShell, type Shell } from './shell.ts';

/** Documents whose commands are run, each against its own service. */
const DOCUMENTS = [
  'README.md',
  'docs/tutorial.md',
  'docs/how-to/produce.md',
  'docs/how-to/consume-from-a-queue.md',
  'docs/consuming.md',
];

if (!hasTools) reportSkipped('every command of the documents works', 'bash, curl or npx is missing');
const whereItCan = hasTools ? it : it.skip;

beforeAll(() => build());

describe('the commands of', () => {
  whereItCan.each(DOCUMENTS)(
    '%s work in the order given, and print what is shown',
    async (path) => {
      const { steps } = runnableParts(readFileSync(join(ROOT, path), 'utf8'));
      expect(steps.length).toBeGreaterThan(0);
      const folder = mkdtempSync(join(tmpdir(), 'sluice-docs-'));
      const database = await createDatabase();
      const service = run({
        DATABASE_URL: database.url,
        DATA_DIRECTORY: folder,
        EGRESS_ALLOW: '127.0.0.0/8',
      });
      try {
        const url = await service.url();
        const shell = openShell(
          { SLUICE_URL: url },
          { 'localhost:3000': new URL(url).host, '8080': await freePort() },
        );
        try {
          for (const step of steps) await shell.run(step);
        } finally {
          await shell.close();
        }
      } finally {
        service.child.kill('SIGTERM');
        await service.exit();
        await database.drop();
        rmSync(folder, { recursive: true });
      }
    },
    300_000,
  );
});

describe('the runner of documents', () => {
  let shell: Shell;
  beforeAll(() => {
    shell = openShell({}, { '8080': '18080' });
  });
  afterAll(() => shell.close());

  const stepOf = (...lines: string[]) => runnableParts(lines.join('\n')).steps[0]!;
  const run = ['<!-- run -->', '```sh', 'left=$((40 + 2))', 'echo "port 8080, $left left"', '```'];

  whereItCan('accepts a block whose output has every line that is shown', async () => {
    await shell.run(stepOf(...run, '', '<!-- output -->', '```text', 'port 8080, … left', '```'));
    await shell.run(stepOf('<!-- run -->', '```sh', 'echo $left', '```', '<!-- output contains: 42 -->'));
  });

  whereItCan('accepts what a background job prints later', async () => {
    const prints = ['<!-- run -->', '```sh', '(npx --version; echo late) &', '```'];
    await shell.run(stepOf(...prints, '<!-- output contains: late -->'));
  });

  whereItCan('fails if a command fails, ends the shell, or prints something else', async () => {
    for (const [command, shown] of [
      ['false', ''],
      ['exit 0', ''],
      ['echo one', 'two'],
    ]) {
      const own = openShell({}, {}, 200);
      const step = stepOf('<!-- run -->', '```sh', command!, '```', `<!-- output contains: ${shown} -->`);
      await expect(own.run(step)).rejects.toThrow('at line 2 did not print');
      await own.close();
    }
  });

  it('refuses an unknown directive, and one without a block', () => {
    expect(() => stepOf('<!-- run: -->', '```sh', '```')).toThrow('line 1: not a directive');
    expect(() => stepOf('<!-- run -->', 'text')).toThrow('line 2: a directive needs a code block');
    expect(() => stepOf('<!-- run -->')).toThrow('the last directive has no code block');
    expect(() => stepOf('<!-- run -->', '```json', '```')).toThrow('line 2: only a block of sh');
    expect(() => stepOf('<!-- output contains: x -->')).toThrow('line 1: output of no command');
  });
});

async function freePort(): Promise<string> {
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as { port: number };
  await new Promise((closed) => server.close(closed));
  return String(port);
}
