import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { checkOneCopy } from './one-copy.ts';
import { PACKAGE } from './version.ts';

const { peerDependencies, peerDependenciesMeta } = PACKAGE;
const REQUIRED = Object.keys(peerDependencies).filter((name) => !peerDependenciesMeta[name]);

let folder: string;
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'sluice-copies-')));
  for (const name of ['sluice', ...REQUIRED]) install(name);
});
afterEach(() => rmSync(folder, { recursive: true }));

function install(name: string, within = '', version = '1.0.0'): void {
  const at = join(folder, within, 'node_modules', name);
  mkdirSync(at, { recursive: true });
  writeFileSync(join(at, 'package.json'), JSON.stringify({ name, version }));
}

const engine = () => join(folder, 'node_modules/sluice');
const check = (from = 'dist') => checkOneCopy(join(folder, from), engine());

it('accepts packages that the service and the read models share, also through a link', () => {
  expect(() => check()).not.toThrow();
  mkdirSync(join(folder, 'packages/stock/node_modules'), { recursive: true });
  symlinkSync(join(folder, 'node_modules/typeorm'), join(folder, 'packages/stock/node_modules/typeorm'));
  expect(() => check('packages/stock')).not.toThrow();
});

it.each(['typeorm', 'class-transformer', '@nestjs/common'])('names both copies of %s', (name) => {
  install(name, 'packages/stock', '2.0.0');
  expect(() => check('packages/stock/dist')).toThrow(
    `${name} is installed twice: ${join(folder, 'node_modules', name)} (1.0.0), which sluice uses, and ` +
      `${join(folder, 'packages/stock/node_modules', name)} (2.0.0), which the read models use; ` +
      'both need the same copy: give package.json one range for it, or run "npm dedupe"',
  );
});

it('names a copy that only the service sees, and a second sluice', () => {
  install('rxjs', 'node_modules/sluice', '7.0.0');
  install('sluice', 'packages/stock', '0.0.9');
  expect(() => check('packages/stock')).toThrow(/rxjs is installed twice.*\nsluice is installed twice/);
});

it('says how to install a package that is missing', () => {
  rmSync(join(folder, 'node_modules/typeorm'), { recursive: true });
  expect(() => checkOneCopy(dirname(folder), engine())).toThrow(
    `typeorm is not installed: npm install "typeorm@${peerDependencies.typeorm}"`,
  );
});
