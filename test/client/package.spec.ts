import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type BuiltService, build, ROOT, run } from '../support/built-service.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { NODES, nodeOf, OTHER_NODES } from '../support/nodes.ts';
import { reportSkipped } from '../support/report-skipped.ts';
import { until } from '../support/until.ts';

const PACKAGE = join(ROOT, 'packages/client');

let database: TestDatabase;
let service: BuiltService;
/** An empty folder, with the packed package installed and the examples of its README compiled. */
let folder: string;
let packed: { files: { path: string }[]; filename: string };

beforeAll(async () => {
  build();
  database = await createDatabase();
  service = run({ DATABASE_URL: database.url, MIGRATIONS: 'off', LOG_LEVEL: 'error' });
  folder = mkdtempSync(join(tmpdir(), 'sluice-client-'));
  [packed] = JSON.parse(npm(freshClone(), 'pack', '--json', '--pack-destination', folder));
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  // Without a registry and without a cache: it has no dependencies.
  npm(
    folder,
    'install',
    '--ignore-scripts',
    '--offline',
    '--cache',
    join(folder, 'cache'),
    `./${packed.filename}`,
  );
  compileExamples(await service.url());
}, 300_000);
afterAll(async () => {
  service.child.kill('SIGTERM');
  await service.exit();
  await database.drop();
  rmSync(folder, { recursive: true });
});

describe('the package', () => {
  it('B12 has what is compiled, its README and its license, and nothing else', () => {
    const paths = packed.files.map(({ path }) => path);
    expect(paths.filter((path) => !path.startsWith('dist/')).sort()).toEqual([
      'LICENSE',
      'README.md',
      'package.json',
    ]);
    const others = paths.filter(
      (path) => path.startsWith('dist/') && !/(?<!\.spec)(\.js|\.d\.ts)$/.test(path),
    );
    expect(others).toEqual([]);
    expect(paths).toEqual(expect.arrayContaining(['dist/index.js', 'dist/index.d.ts', 'dist/node.js']));
    const license = (at: string) => readFileSync(join(at, 'LICENSE'), 'utf8');
    expect(license(PACKAGE)).toBe(license(ROOT));
  });

  it('has no dependencies, and the version of the service', () => {
    const own = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8'));
    expect(Object.keys(own).filter((name) => /dependencies/i.test(name))).toEqual([]);
    expect(own.version).toBe(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version);
  });

  it('uses nothing of Node but in the entry for Node', () => {
    const paths = packed.files.map(({ path }) => path).filter((path) => path.endsWith('.js'));
    const bound = paths.filter((path) => /from 'node:/.test(readFileSync(join(PACKAGE, path), 'utf8')));
    expect(bound).toEqual(['dist/http/node-transport.js']);
  });
});

describe('the examples of the README', () => {
  it('B12 produce, consume in both ways and work on a queue, in the order of the README', async () => {
    await runExamples(process.execPath);
  });

  for (const version of OTHER_NODES) {
    const node = nodeOf(version);
    if (!node) {
      const why = `it is not here; set NODE_${version} or: npm ci --prefix ${NODES}`;
      reportSkipped(`the client runs on Node ${version}`, why);
    }
    (node ? it : it.skip)(`run on Node ${version}`, async () => {
      expect(spawnSync(node!, ['--version'], { encoding: 'utf8' }).stdout).toMatch(`v${version}.`);
      await runExamples(node!);
    });
  }
});

async function runExamples(node: string): Promise<void> {
  await example(node, 'connect').ended(0);
  await example(node, 'setup').ended(0);
  const produce = example(node, 'produce');
  await produce.ended(0);
  expect(produce.output()).toMatch(/^stored \S+, duplicate: false\nrefused: 404 .+\n$/);
  const consume = example(node, 'consume');
  await until(() => consume.output().includes('charged order-7\n'));
  consume.child.kill('SIGTERM');
  await consume.ended(0);
  const again = example(node, 'produce');
  await again.ended(0);
  const batches = example(node, 'batches', { ONCE: '1' });
  await batches.ended(0);
  expect(batches.output()).toMatch(/^saved \d+ of orders\/\d+\n$/);
  await example(node, 'setup-queue').ended(0);
  await example(node, 'produce').ended(0);
  const queue = example(node, 'queue');
  await until(() => queue.output().includes('notified order-7\n'));
  queue.child.kill('SIGTERM');
  await queue.ended(0);
}

interface Example {
  readonly child: ChildProcess;
  output(): string;
  /** Fails with what it printed if it ends in another way. */
  ended(code: number): Promise<void>;
}

function example(node: string, name: string, environment: Record<string, string> = {}): Example {
  const child = spawn(node, [join(folder, 'compiled', `${name}.js`)], {
    cwd: folder,
    env: { PATH: process.env.PATH, ...environment },
  });
  let [output, errors] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text) => {
    errors += text;
  });
  const closed = once(child, 'close');
  return {
    child,
    output: () => output,
    async ended(code) {
      const [actual, signal] = await closed;
      expect([name, actual ?? signal, errors]).toEqual([name, code, '']);
    },
  };
}

/** Type-checked against the types of the installed package, as a user's compiler does. */
function compileExamples(url: string): void {
  const readme = readFileSync(join(folder, 'node_modules/@sluice/client/README.md'), 'utf8');
  const files = [...readme.matchAll(/<!-- file: ([\w-]+\.ts) -->\n```ts\n([\s\S]*?)```/g)];
  expect(files).toHaveLength(readme.match(/^```ts$/gm)!.length);
  mkdirSync(join(folder, 'examples'));
  for (const [, name, code] of files)
    writeFileSync(join(folder, 'examples', name!), code!.replaceAll('http://localhost:3000', url));
  const tsconfig = {
    compilerOptions: {
      module: 'nodenext',
      target: 'es2022',
      strict: true,
      exactOptionalPropertyTypes: true,
      typeRoots: [join(ROOT, 'node_modules/@types')],
      types: ['node'],
      rootDir: 'examples',
      outDir: 'compiled',
    },
    include: ['examples'],
  };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(tsconfig));
  const compiled = spawnSync(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc')], {
    cwd: folder,
    encoding: 'utf8',
  });
  if (compiled.status !== 0) throw new Error(compiled.stdout);
}

/** The package as git has it: nothing is compiled yet. */
function freshClone(): string {
  const clone = join(folder, 'clone');
  mkdirSync(clone);
  for (const name of readdirSync(PACKAGE))
    if (!['dist', 'node_modules'].includes(name))
      cpSync(join(PACKAGE, name), join(clone, name), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(clone, 'node_modules'));
  return clone;
}

function npm(cwd: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync('npm', [...args, '--no-audit', '--no-fund'], {
    cwd,
    encoding: 'utf8',
    shell: process.platform === 'win32',
  });
  if (status !== 0) throw new Error(`npm ${args.join(' ')}: ${stdout}${stderr}`);
  return stdout;
}
