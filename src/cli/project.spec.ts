import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { PACKAGE, VERSION } from '../version.ts';
import { writeProject } from './project.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-init-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('a new project', () => {
  it('has at most ten files, named after its folder, with the version of this service', () => {
    const files = writeProject(join(folder, 'deep/shop'));
    expect(files.length).toBeLessThanOrEqual(10);
    for (const file of files) {
      const text = readFileSync(join(folder, 'deep/shop', file), 'utf8');
      expect([file, text.match(/\{\{\w+\}\}|undefined"/)]).toEqual([file, null]);
    }
    const { name, dependencies } = JSON.parse(readFileSync(join(folder, 'deep/shop/package.json'), 'utf8'));
    expect([name, dependencies.sluice]).toEqual(['shop', VERSION]);
    expect(dependencies.typeorm).toBe(PACKAGE.peerDependencies.typeorm);
  });

  it('may be written into an empty folder, and into one that has only a .git', () => {
    mkdirSync(join(folder, 'shop/.git'), { recursive: true });
    writeProject(join(folder, 'shop'));
    expect(existsSync(join(folder, 'shop/src/stock.ts'))).toBe(true);
  });

  it.each(['Shop', 'my shop', '.hidden', 'ä', 'sluice', 'node_modules', 'x'.repeat(101)])(
    'cannot have the name %s',
    (name) => {
      expect(() => writeProject(join(folder, name))).toThrow(`"${name}" cannot be the name of the project`);
      expect(readdirSync(folder)).toEqual([]);
    },
  );

  it('is not written over anything', () => {
    mkdirSync(join(folder, 'shop'));
    writeFileSync(join(folder, 'shop/notes.md'), 'mine');
    expect(() => writeProject(join(folder, 'shop'))).toThrow('is not empty (notes.md); name a new folder');
    writeFileSync(join(folder, 'file'), '');
    expect(() => writeProject(join(folder, 'file'))).toThrow('is a file; name a new folder');
    expect(readdirSync(join(folder, 'shop'))).toEqual(['notes.md']);
  });

  it('leaves nothing behind when it cannot be written to the end', () => {
    writeFileSync(join(folder, 'file'), '');
    // A folder below a file cannot be made, whoever runs the test.
    expect(() => writeProject(join(folder, 'file/below/shop'))).toThrow(/^nothing was written: ENOTDIR/);
    mkdirSync(join(folder, 'shop'));
    const planted = () => writeProject(join(folder, 'shop'), ['package.json', 'src/index.ts', 'missing']);
    expect(planted).toThrow(/^nothing was written: ENOENT/);
    expect(readdirSync(join(folder, 'shop'))).toEqual([]);
  });
});
