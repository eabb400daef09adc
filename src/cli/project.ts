import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { PACKAGE, PACKAGE_FOLDER, VERSION } from '../version.ts';
import { CliError, EXIT } from './cli-error.ts';

/** The files in `templates` that make a new project. */
const SOURCES = [
  'package.json',
  'tsconfig.json',
  'gitignore',
  'README.md',
  'Dockerfile',
  'compose.yaml',
  'src/index.ts',
  'src/stock.ts',
  'src/stock.spec.ts',
];

const NAME = /^[a-z0-9][a-z0-9._-]{0,99}$/;
const TAKEN = ['sluice', 'node_modules'];

/** Writes a small project into a new or empty folder: all of it or, when something fails, nothing. */
export function writeProject(folder: string, sources: readonly string[] = SOURCES): readonly string[] {
  const name = basename(resolve(folder));
  checkTarget(folder, name);
  const engine = engineSpec(folder);
  const files: string[] = [];
  const undo: (() => void)[] = [];
  try {
    for (const source of sources) {
      const text = readFileSync(join(PACKAGE_FOLDER, 'templates', source), 'utf8');
      // npm leaves a file named .gitignore out of packages.
      files.push(source === 'gitignore' ? '.gitignore' : source);
      const path = join(resolve(folder), files.at(-1)!);
      write(path, filled(text, name, engine), undo);
    }
  } catch (error) {
    for (const step of undo.reverse()) step();
    throw new CliError(`nothing was written: ${(error as Error).message}`, EXIT.failed);
  }
  return files;
}

function checkTarget(folder: string, name: string): void {
  if (!NAME.test(name) || TAKEN.includes(name))
    throw new CliError(
      `"${name}" cannot be the name of the project: use lower-case letters, digits, ".", "_" and "-", ` +
        `beginning with a letter or digit, up to 100, and none of ${TAKEN.join(', ')}`,
      EXIT.usage,
    );
  const stat = existsSync(folder) ? statSync(folder) : undefined;
  if (stat && !stat.isDirectory()) throw new CliError(`${folder} is a file; name a new folder`, EXIT.failed);
  const there = stat ? readdirSync(folder).filter((entry) => entry !== '.git') : [];
  if (there.length === 0) return;
  const shown = there.length > 3 ? `${there.slice(0, 3).join(', ')}, …` : there.join(', ');
  throw new CliError(`${folder} is not empty (${shown}); name a new folder`, EXIT.failed);
}

function write(path: string, text: string, undo: (() => void)[]): void {
  makeFolder(dirname(path), undo);
  writeFileSync(path, text, { flag: 'wx' });
  undo.push(() => unlinkSync(path));
}

function makeFolder(folder: string, undo: (() => void)[]): void {
  if (existsSync(folder)) return;
  makeFolder(dirname(folder), undo);
  mkdirSync(folder);
  undo.push(() => rmdirSync(folder));
}

/** Ranges are those of sluice itself, so that there is one copy of each package. */
function filled(template: string, name: string, engine: string): string {
  const ranges: Record<string, string> = {
    ...PACKAGE.devDependencies,
    ...PACKAGE.peerDependencies,
    sluice: engine,
  };
  return template
    .replaceAll('{{name}}', name)
    .replaceAll(/"([^"]+)": "\{\{range\}\}"/g, (_, one: string) => `"${one}": "${ranges[one]}"`);
}

/** How the project gets sluice: as this copy was installed if that was from a file, else this version. */
function engineSpec(folder: string): string {
  const [, installedIn] = /^(.*)[\\/]node_modules[\\/]sluice$/.exec(PACKAGE_FOLDER) ?? [];
  const path = installedIn && join(installedIn, 'package.json');
  const given = path && existsSync(path) && JSON.parse(readFileSync(path, 'utf8')).dependencies?.sluice;
  if (typeof given !== 'string' || !given.startsWith('file:')) return VERSION;
  const file = resolve(installedIn!, given.slice('file:'.length));
  return `file:${relative(resolve(folder), file).replaceAll('\\', '/')}`;
}
