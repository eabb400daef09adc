import { mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { transformSync } from '@swc/core';

const ROOT = resolve(import.meta.dirname, '..');

/** As in jest.config.mjs. */
const SWC = {
  swcrc: false,
  jsc: {
    target: 'es2022',
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: false },
  },
  module: { type: 'es6' },
};

/**
 * Compiles the code of the fault runs into a new folder, together with the built service: `src` there is `dist/src`, or that
 * of another version's build.
 */
export function compile(dist = join(ROOT, 'dist')) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-chaos-'));
  for (const path of sources()) {
    const target = join(folder, path.replace(/\.ts$/, '.js'));
    const { code } = transformSync(readFileSync(join(ROOT, path), 'utf8'), SWC);
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(
      target,
      code.replaceAll(/(\bfrom |\bimport |\bimport\()(['"]\.[^'"]+)\.ts(['"])/g, '$1$2.js$3'),
    );
  }
  for (const part of ['src', 'migrations']) symlinkSync(join(dist, part), join(folder, part));
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'package.json'), readFileSync(join(ROOT, 'package.json')));
  return folder;
}

function sources() {
  return ['chaos', 'test/support'].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.ts') && !path.endsWith('.spec.ts') && !path.startsWith('global-'))
      .map((path) => join(folder, path)),
  );
}
