import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { ReadModel } from '../../src/contract/read-model.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { ROOT } from '../support/built-service.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { reportSkipped } from '../support/report-skipped.ts';
import { runnableParts } from './markdown.ts';
import { hasTools, openShell } from './shell.ts';

const FOLDER = 'src/read-models/parcels';
const { steps, files } = runnableParts(readFileSync(join(ROOT, 'docs/tutorial.md'), 'utf8'), 'parcels');
const tree = writtenTree();

/*
 * The read model of the tutorial as a reader would have it: its files as printed, in a tree of links to ours. Nothing is
 * written to the real one, whose build other tests use.
 */
function writtenTree(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-tutorial-'));
  mkdirSync(join(folder, 'src/read-models'), { recursive: true });
  for (const shared of ['node_modules', 'test', 'src/contract', 'src/testing'])
    symlinkSync(join(ROOT, shared), join(folder, shared));
  for (const { path, text } of files) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

afterAll(() => rmSync(tree, { recursive: true }));

describe('the read model of the tutorial, by its own spec', () => {
  it('is complete', () => {
    expect(files.map(({ path }) => path)).toEqual(
      expect.arrayContaining([`${FOLDER}/parcels.module.ts`, `${FOLDER}/parcels.spec.ts`]),
    );
  });
});

// Declares its tests here.
await import(join(tree, FOLDER, 'parcels.spec.ts'));

describe('the read model of the tutorial, in a replica', () => {
  let database: TestDatabase;
  let replica: TestApp;

  beforeAll(async () => {
    const { parcels } = (await import(join(tree, FOLDER, 'parcels.module.ts'))) as { parcels: ReadModel };
    database = await createDatabase();
    replica = await startApp(database, { API_KEYS: '' }, [parcels]);
  });
  afterAll(async () => {
    await replica.close();
    await database.drop();
  });

  if (!hasTools)
    reportSkipped('the read model of the tutorial prints what is shown', 'bash or curl is missing');
  (hasTools ? it : it.skip)('prints what the tutorial shows', async () => {
    expect(steps.length).toBeGreaterThan(0);
    const shell = openShell({}, { 'localhost:3000': new URL(replica.url).host });
    try {
      for (const step of steps) await shell.run(step);
    } finally {
      await shell.close();
    }
  });
});
