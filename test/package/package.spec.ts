import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { build, ROOT } from '../support/built-service.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { nodeOf, OTHER_NODES } from '../support/nodes.ts';
import { reportSkipped } from '../support/report-skipped.ts';
import { until } from '../support/until.ts';

/*
 * The engine as its users have it: packed, installed in an empty folder, a project written by `sluice init`. One install
 * serves all tests and all versions of Node.
 */
let folder: string;
let project: string;
let packed: { files: { path: string }[]; filename: string };
let database: TestDatabase;
/** From an empty folder to a project whose packages are installed. */
let setUpSeconds: number;

beforeAll(async () => {
  build();
  database = await createDatabase({ empty: true });
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'sluice-package-')));
  project = join(folder, 'shop');
  [packed] = JSON.parse(npm(ROOT, 'pack', '--json', '--ignore-scripts', '--pack-destination', folder));
  const startedAt = performance.now();
  writeFileSync(join(folder, 'package.json'), '{"private":true}');
  install(folder, `./${packed.filename}`);
  const written = sluice(folder, 'init', 'shop');
  expect([written.status, written.stderr]).toEqual([0, '']);
  install(project);
  setUpSeconds = (performance.now() - startedAt) / 1_000;
}, 600_000);
afterAll(async () => {
  await database.drop();
  rmSync(folder, { recursive: true, force: true });
});

describe('the package', () => {
  it('has what is compiled, the command line and the templates, and nothing else', () => {
    const paths = packed.files.map(({ path }) => path);
    expect(paths).toEqual(
      expect.arrayContaining(['LICENSE', 'README.md', 'CHANGELOG.md', 'dist/console/index.html']),
    );
    const others = paths.filter(
      (path) =>
        !/^dist\/(src|migrations)\/.*\.(js|d\.ts)$|^dist\/(console|src\/http\/docs\/assets)\/|^templates\//.test(
          path,
        ),
    );
    expect(others.sort()).toEqual([
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'package.json',
      'scripts/check-node.mjs',
      'scripts/sluice.mjs',
    ]);
    expect(paths.filter((path) => /\.spec\.(js|d\.ts)$|recruitment|dist\/src\/main\./.test(path))).toEqual(
      [],
    );
  });

  it('imports no package at run time that it does not declare', () => {
    const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    const declared = new Set(Object.keys({ ...dependencies, ...peerDependencies }));
    const imported = packed.files
      .filter(({ path }) => /^dist\/(src|migrations)\/.*\.js$/.test(path) && !path.includes('/assets/'))
      .flatMap(({ path }) => [
        ...readFileSync(join(ROOT, path), 'utf8').matchAll(
          /^(?:(?:import|export) .*from |import |.*\bimport\()'(node:|(?:@[\w-]+\/)?[\w-]+)/gm,
        ),
      ])
      .map(([, name]) => name!);
    expect(imported).toContain('typeorm');
    expect([...new Set(imported)].filter((name) => !declared.has(name) && name !== 'node:')).toEqual([]);
  });

  it('has types that compile under strict in another project, and refuse what is wrong', () => {
    const types = join(project, 'types');
    mkdirSync(types);
    writeFileSync(join(types, 'right.ts'), RIGHT);
    writeFileSync(join(types, 'wrong.ts'), WRONG);
    const strict = ['--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess'];
    const options = ['--ignoreConfig', '--noEmit', '--module', 'nodenext', '--target', 'es2023', ...strict];
    // With the declarations themselves.
    const right = tsc(project, ...options, 'types/right.ts');
    expect([right.status, right.stdout]).toEqual([0, '']);
    const wrong = tsc(project, ...options, '--skipLibCheck', 'types/wrong.ts');
    expect(wrong.stdout.match(/^types\/wrong\.ts\(\d+/gm)).toEqual([
      'types/wrong.ts(4',
      'types/wrong.ts(5',
      'types/wrong.ts(6',
    ]);
  });
});

describe('a project by sluice init', () => {
  it('installs no telemetry: swagger-ui-dist, which depends on it, is replaced by a package without code', () => {
    const { packages } = JSON.parse(readFileSync(join(project, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { name?: string; hasInstallScript?: boolean }>;
    };
    const names = Object.entries(packages).map(
      ([path, { name }]) => name ?? path.split('node_modules/').at(-1)!,
    );
    expect(names).toContain('@nestjs/swagger');
    expect(names.filter((name) => /^@scarf\/|^swagger-ui-dist$/.test(name))).toEqual([]);
  });

  it('is compiled and tested by npm test', () => {
    expect(runTests(process.execPath)).toEqual({ status: 0, passed: 3 });
  });

  it('starts by npm start, takes a message, and shows what it changed', async () => {
    const startedAt = performance.now();
    await serves(process.execPath, ['npm', 'start']);
    const seconds = setUpSeconds + (performance.now() - startedAt) / 1_000;
    process.stdout.write(`from an empty folder to the first applied message: ${Math.round(seconds)} s\n`);
  });

  it('has read models that the image of this repository serves, mounted there', async () => {
    // As the Dockerfile lays it out.
    const app = realpathSync(mkdtempSync(join(tmpdir(), 'sluice-image-')));
    for (const name of ['package.json', 'dist', 'node_modules'])
      symlinkSync(join(ROOT, name), join(app, name));
    cpSync(join(project, 'dist'), join(app, 'read-models'), { recursive: true });
    const serve = ['dist/src/cli/main.js', 'serve', '--read-models', 'read-models/index.js'];
    try {
      await serves(process.execPath, [process.execPath, ...serve], app);
    } finally {
      rmSync(app, { recursive: true });
    }
  });

  it('starts and stops within a program of its own, which then ends by itself', async () => {
    writeFileSync(join(project, 'dist/own.js'), OWN_PROGRAM);
    const own = spawnSync(process.execPath, ['dist/own.js'], {
      cwd: project,
      encoding: 'utf8',
      timeout: 60_000,
      env: { ...environment(process.execPath), DATABASE_URL: database.url },
    });
    expect([own.status, own.stdout, own.stderr]).toEqual([0, '202 {"id":"own","pieces":5}\nrefused\n', '']);
  });

  for (const version of OTHER_NODES) {
    const node = nodeOf(version);
    if (!node) reportSkipped(`the package runs on Node ${version}`, `it is not here; set NODE_${version}`);
    (node ? it : it.skip)(`does the same on Node ${version}`, async () => {
      expect(runTests(node!)).toEqual({ status: 0, passed: 3 });
      await serves(node!);
    });
  }
});

describe('what cannot start says so in one line', () => {
  const file = (name: string, text: string) => {
    writeFileSync(join(project, 'dist', name), text);
    return `dist/${name}`;
  };
  const refusal = (path: string) => {
    const { status, stderr } = sluice(project, 'serve', '--read-models', path);
    return [status, stderr.trim()];
  };

  it.each<[what: string, of: () => string, line: RegExp]>([
    ['a file that is not there', () => 'dist/nowhere.js', /dist\/nowhere\.js does not exist; compile/],
    ['a folder', () => 'dist', /dist is not a file/],
    [
      'no read models',
      () => file('none.js', 'export const stock = 1;'),
      /exports stock, but neither "readModels" nor/,
    ],
    [
      'something else',
      () => file('else.js', 'export default [7];'),
      /read model 1 of 1: is a number, not a read model/,
    ],
    [
      'a name that two share',
      () => file('twice.js', "import { stock } from './stock.js'; export default [stock, { ...stock }];"),
      /two read models have the name "stock"/,
    ],
    [
      'a missing package',
      () => file('missing.js', "import 'nowhere';"),
      /cannot be loaded: Cannot find package 'nowhere'/,
    ],
  ])('%s', (_what, of, line) => {
    const [status, text] = refusal(of());
    expect(status).toBe(1);
    expect(text).toMatch(line);
    expect(String(text).split('\n')).toHaveLength(1);
  });

  it('a second copy of typeorm, with the paths of both', () => {
    const copy = join(project, 'dist/node_modules/typeorm');
    cpSync(join(project, 'node_modules/typeorm/package.json'), join(copy, 'package.json'));
    const [status, text] = refusal('dist/index.js');
    rmSync(dirname(copy), { recursive: true });
    expect(status).toBe(1);
    expect(text).toMatch(/^sluice: typeorm is installed twice: .+ which the read models use;.+npm dedupe"$/);
    expect(text).toContain(join(project, 'node_modules/typeorm'));
    expect(text).toContain(copy);
  });
});

const SERVE = ['node_modules/sluice/scripts/sluice.mjs', 'serve', '--read-models', 'dist/index.js'];

/** In a process group of its own: npm starts others. */
async function serves(node: string, command = [node, ...SERVE], cwd = project): Promise<void> {
  const [program, ...args] = command as [string, ...string[]];
  const child = spawn(program, args, {
    cwd,
    detached: true,
    env: { ...environment(node), PORT: '0', DATABASE_URL: database.url, LOG_LEVEL: 'error' },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (text) => {
      output += text;
    });
  const ended = once(child, 'exit');
  try {
    await until(() => child.exitCode !== null || /read models +stock\n/.test(output));
    const url = /serving +(http\S+)/.exec(output)?.[1];
    if (!url) throw new Error(output);
    const id = `m-${[node, cwd].join()}`;
    const body = { id, type: 'urn:shop:events/item-received', key: id, payload: { itemId: id, pieces: 5 } };
    const posted = await fetch(`${url}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    expect(posted.status).toBe(202);
    const after = encodeURIComponent(id);
    const read = await fetch(`${url}/v1/items/${after}?after=${after}&wait=20s`);
    expect(await read.json()).toMatchObject({ id, pieces: 5 });
    // Only this process: npm must not leave the service behind.
    child.kill('SIGTERM');
    const end = await ended;
    if (program === node) expect(end).toEqual([0, null]);
    await expect(fetch(url)).rejects.toThrow();
  } finally {
    killGroup(child.pid!);
    await ended;
  }
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // Nothing of it is left.
  }
}

/** `npm test` of the project, by this version of Node. */
function runTests(node: string): { status: number | null; passed: number } {
  const tested = spawnSync('npm', ['test'], {
    cwd: project,
    encoding: 'utf8',
    env: { ...process.env, ...environment(node) },
  });
  const passed = Number(/^(?:#|ℹ) pass (\d+)/m.exec(tested.stdout)?.[1] ?? 0);
  if (tested.status !== 0) throw new Error(tested.stdout + tested.stderr);
  return { status: tested.status, passed };
}

function environment(node: string): Record<string, string> {
  return { PATH: `${dirname(node)}:${process.env.PATH}` };
}

function sluice(cwd: string, ...args: string[]) {
  const program = join(folder, cwd === folder ? '' : 'shop', 'node_modules/sluice/scripts/sluice.mjs');
  return spawnSync(process.execPath, [program, ...args], {
    cwd,
    encoding: 'utf8',
    env: { PATH: process.env.PATH },
  });
}

function tsc(cwd: string, ...args: string[]) {
  return spawnSync(process.execPath, [join(cwd, 'node_modules/typescript/bin/tsc'), ...args], {
    cwd,
    encoding: 'utf8',
  });
}

function install(cwd: string, ...packages: string[]): void {
  npm(cwd, 'install', '--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', ...packages);
}

function npm(cwd: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync('npm', args, { cwd, encoding: 'utf8' });
  if (status !== 0) throw new Error(`npm ${args.join(' ')}: ${stdout}${stderr}`);
  return stdout;
}

const OWN_PROGRAM = `
import { createSluice } from 'sluice';
import { stock } from './stock.js';
const environment = { DATABASE_URL: process.env.DATABASE_URL, PORT: '0', HOST: '127.0.0.1', LOG_LEVEL: 'error' };
const { url, stop } = await createSluice({ readModels: [stock], environment }).start();
const body = { id: 'own', type: 'urn:shop:events/item-received', key: 'own', payload: { itemId: 'own', pieces: 5 } };
const headers = { 'content-type': 'application/json' };
const { status } = await fetch(url + '/v1/messages', { method: 'POST', headers, body: JSON.stringify(body) });
const { id, pieces } = await (await fetch(url + '/v1/items/own?after=own&wait=20s')).json();
console.log(status, JSON.stringify({ id, pieces }));
await stop();
console.log(await fetch(url).then(() => 'served', () => 'refused'));
`;
const RIGHT = `
import { createSluice, type RunningSluice } from 'sluice';
import { Denormalizer, type Message, type ReadModel, type ReadModelTransaction } from 'sluice/contract';
import { messageOf, readModelTest } from 'sluice/testing';

class Module {}
export const model: ReadModel = { name: 'm', module: Module, entities: [], migrations: [] };
export class One {
  async apply({ payload, receivedAt }: Message<{ id: string }>, tx: ReadModelTransaction): Promise<void> {
    const rows = await tx.query<{ id: string }>('SELECT $1', [payload.id, receivedAt.getTime()]);
    await tx.send({ type: 'seen', payload: rows[0]?.id });
  }
}
Denormalizer({ types: ['t'] })(One);
export const running: Promise<RunningSluice> = createSluice({ readModels: [model], environment: {} }).start();
export const tested = readModelTest(model, { before: (_work) => undefined, after: (_work) => undefined })
  .given(One, [messageOf('t', { id: 'a' }, 'id')()])
  .rebuilt();
`;
const WRONG = `
import { createSluice } from 'sluice';
import type { Message } from 'sluice/contract';
createSluice({ readModels: [{ name: 'm' }] });
export const time = (message: Message): string => message.receivedAt;
import 'sluice/inbox';
`;
