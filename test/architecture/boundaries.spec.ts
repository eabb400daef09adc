import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import ts from 'typescript';

const ROOT = resolve(import.meta.dirname, '../..');
const RULES = join(ROOT, '.dependency-cruiser.cjs');
const FOLDER_RULES = join(ROOT, '.dependency-cruiser.folders.cjs');
const CRUISER = join(ROOT, 'node_modules/.bin/depcruise');

/** Rule → imports that break it, each as [importing file, what it imports]. */
const PLANTED: Record<string, [from: string, to: string][]> = {
  'foundations-know-no-feature': [
    ['src/clock/a.ts', '../lanes/lanes.ts'],
    ['src/telemetry/a.ts', '../inbox/inbox.ts'],
    ['src/database/a.ts', '../outbox/outbox.ts'],
    ['src/http/a.ts', '../upkeep/upkeep.ts'],
    ['src/contract/a.ts', '../listeners/listeners.ts'],
    ['src/http/b.ts', '../service.ts'],
  ],
  'config-imports-no-feature': [['src/config/a.ts', '../clock/clock.ts']],
  'lanes-import-only-foundations': [
    ['src/lanes/a.ts', '../inbox/inbox.ts'],
    ['src/lanes/b.ts', '../outbox/fan-out/fan-out.ts'],
    ['src/lanes/c.ts', '../service.ts'],
  ],
  'inbox-sees-only-the-fan-out-of-the-outbox': [
    ['src/inbox/a.ts', '../outbox/outbox.ts'],
    ['src/inbox/b.ts', '../listeners/listeners.ts'],
  ],
  'history-imports-only-foundations': [
    ['src/history/a.ts', '../inbox/inbox.ts'],
    ['src/history/b.ts', '../listeners/listeners.ts'],
  ],
  'webhooks-import-only-foundations': [['src/webhooks/a.ts', '../listeners/listeners.ts']],
  'outbox-imports-no-later-stage': [
    ['src/outbox/a.ts', '../inbox/inbox.ts'],
    ['src/listeners/a.ts', '../inbox/inbox.ts'],
    ['src/definitions/a.ts', '../inbox/inbox.ts'],
  ],
  'read-models-never-see-the-engine': [
    ['src/read-models/recruitment/a.ts', '../../inbox/inbox.ts'],
    ['src/read-models/recruitment/b.ts', '../../clock/clock.ts'],
    ['src/read-models/recruitment/c.ts', '../payroll/payroll.ts'],
    ['src/read-models/recruitment/d.ts', '../../contract/contract.ts'],
  ],
  'test-kit-only-in-specs': [['src/upkeep/f.ts', '../testing/index.ts']],
  'engine-never-sees-a-read-model': [
    ['src/upkeep/a.ts', '../read-models/read-models.module.ts'],
    ['src/upkeep/b.ts', '../read-models/payroll/payroll.ts'],
  ],
  'top-sees-only-the-list-of-read-models': [['src/app.ts', './read-models/payroll/payroll.ts']],
  'cli-imports-no-engine': [
    ['src/cli/a.ts', '../inbox/inbox.ts'],
    ['src/cli/b.ts', '../service.ts'],
  ],
  'only-the-cli-imports-the-cli': [['src/upkeep/d.ts', '../cli/cli.ts']],
  'client-imports-nothing-else': [
    ['packages/client/src/a.ts', '../../../src/config/duration.ts'],
    ['packages/client/src/b.ts', 'undici'],
  ],
  'only-the-cli-uses-the-client': [['src/upkeep/e.ts', '../../packages/client/src/sluice.ts']],
  'console-imports-nothing-else': [
    ['console/src/a.ts', '../../src/config/duration.ts'],
    ['console/src/b.ts', 'undici'],
  ],
  'only-the-console-imports-the-console': [['src/http/h.ts', '../../console/src/format.ts']],
  'sql-only-from-its-folder': [
    ['src/upkeep/c.ts', '../inbox/inbox.sql.ts'],
    ['src/lanes/inbox-store.ts', '../inbox/inbox.sql.ts'],
  ],
  // Reported for the statements, not for the modules that run them.
  'sql-only-from-its-store': [['src/listeners/listeners.sql.ts', '../clock/clock.ts']],
  'brokers-import-only-webhooks': [['src/brokers/a.ts', '../listeners/listeners.ts']],
  'nats-client-only-in-its-folder': [['src/brokers/b.ts', '@nats-io/transport-node']],
  'rabbitmq-client-only-in-its-folder': [['src/brokers/nats/a.ts', 'rabbitmq-client']],
  'kafka-client-only-in-its-folder': [['src/brokers/d.ts', '@platformatic/kafka']],
  'broker-clients-are-loaded-on-demand': [['src/brokers/c.ts', './nats/nats-sink.ts']],
  'undici-only-in-the-sender': [['src/outbox/b.ts', 'undici']],
  'migrations-are-frozen': [['migrations/1-first.ts', '../src/lanes/lanes.ts']],
  'no-cycles': [['src/clock/ring-too.ts', './ring.ts']],
  'no-dev-dependency-in-the-service': [['src/http/c.ts', 'supertest']],
  'no-tests-in-the-service': [
    ['src/http/d.ts', '../../test/support/app.ts'],
    ['src/http/e.ts', './http.spec.ts'],
  ],
  'no-unresolvable-import': [['src/http/f.ts', './nowhere.ts']],
  'no-undeclared-package': [['src/http/g.ts', 'stowaway']],
};

/** Files that the violations need: the other half of the cycle, the two that share statements. */
const COMPANIONS: [from: string, to: string][] = [
  ['src/clock/ring.ts', './ring-too.ts'],
  ['src/listeners/one-store.ts', './listeners.sql.ts'],
  ['src/listeners/other-store.ts', './listeners.sql.ts'],
];

/** The same shapes where they are allowed: nothing here may be reported. */
const INNOCENT: [from: string, to: string][] = [
  ['src/inbox/inbox-store.ts', './inbox.sql.ts'],
  ['src/inbox/inbox.ts', '../outbox/fan-out/fan-out.ts'],
  ['src/inbox/finder.ts', '../history/history.ts'],
  ['src/outbox/outbox.ts', '../lanes/lanes.ts'],
  ['src/webhooks/webhook-sender.ts', 'undici'],
  ['src/read-models/payroll/denormalizer.ts', '../../contract/index.ts'],
  ['src/read-models/payroll/payroll.spec.ts', '../../testing/index.ts'],
  ['src/read-models/payroll/denormalizer.spec.ts', 'supertest'],
  ['src/app.module.ts', './read-models/read-models.module.ts'],
  ['src/http/openapi.ts', '../version.ts'],
  ['src/cli/cli.ts', '../version.ts'],
  ['src/cli/api.ts', '../../packages/client/src/sluice.ts'],
  ['packages/client/src/node.ts', 'node:http'],
  ['console/src/api.ts', './format.ts'],
];

interface Violation {
  rule: { name: string };
  from: string;
  to: string;
  unresolvedTo?: string;
}

describe('import rules', () => {
  let folder: string;
  let found: Violation[];

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'boundaries-'));
    plant(folder);
    found = violationsIn(folder);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('have a planted violation each, so that none can break unnoticed', () => {
    const { forbidden } = createRequire(import.meta.url)(RULES) as { forbidden: { name: string }[] };
    expect(Object.keys(PLANTED).sort()).toEqual(forbidden.map(({ name }) => name).sort());
  });

  it.each(Object.entries(PLANTED))('detect a violation of %s', (rule, imports) => {
    const caught = found.filter((one) => one.rule.name === rule).map(({ from }) => from);
    expect(caught).toEqual(expect.arrayContaining(imports.map(([from]) => from)));
  });

  it('detect a cycle between two folders without a cycle between files', () => {
    const own = mkdtempSync(join(tmpdir(), 'folders-'));
    try {
      plant(own, [
        ['src/lanes/one.ts', '../outbox/two.ts'],
        ['src/outbox/three.ts', '../lanes/four.ts'],
      ]);
      expect(violationsIn(own, FOLDER_RULES).map(({ rule }) => rule.name)).toContain(
        'no-cycles-between-folders',
      );
    } finally {
      rmSync(own, { recursive: true });
    }
  });

  it('allow everything else', () => {
    const innocent = INNOCENT.map(([from]) => from);
    expect(found.filter(({ from }) => innocent.includes(from))).toEqual([]);
  });
});

describe('the sources', () => {
  const sources = [...filesIn('src'), ...filesIn('migrations')].filter((path) =>
    /(?<!\.spec)\.ts$/.test(path),
  );

  it('read the environment in the entry points and nowhere else', () => {
    const readers = sources.filter((path) => /\bprocess\.env\b/.test(read(path)));
    expect(readers.sort()).toEqual([
      'src/cli/main.ts',
      // The default of createSluice.
      'src/index.ts',
      // Of the test kit: TEST_DATABASE_URL, in the process of a test runner.
      'src/testing/test-database.ts',
    ]);
  });

  it('have no folder with an empty name such as utils', () => {
    const vague = sources.filter((path) => /\/(utils?|common|helpers?|shared|misc|lib)\//.test(path));
    expect(vague).toEqual([]);
  });

  it('have no barrels but the entries of the package: every import names the file', () => {
    const barrels = sources.filter((path) => /\bindex\.ts$/.test(path));
    expect(barrels.sort()).toEqual(['src/contract/index.ts', 'src/index.ts', 'src/testing/index.ts']);
  });

  it('give every log line a stable event of the form area.what-happened', () => {
    const calls = sources.flatMap(logCalls);
    expect(calls.length).toBeGreaterThan(10);
    expect(calls.filter(({ event }) => !/^[a-z][a-z-]*\.[a-z$][a-z0-9-]*$/.test(event))).toEqual([]);
  });

  it('create no child of a log, but for the name of a cell: pino does not redact its fields', () => {
    expect(sources.filter((path) => /\blog\.child\((?!\{ cell: name \}\))/.test(read(path)))).toEqual([]);
  });

  it.each([
    ['without fields', `log.warn('words');`],
    ['without an event', `this.log.error({ error }, 'words');`],
    ['with an event of no area', `log.info({ event: 'started' }, 'words');`],
    ['with an event that is computed', `log.info({ event: name() }, 'words');`],
    ['with an event that comes from elsewhere', `function say(event) { log.info({ event }, 'words'); }`],
    ['with a bad constant', `const event = isLate ? 'late' : 'late'; log.info({ event }, 'words');`],
  ])('are searched so that a log call %s is found', (_what, code) => {
    const [call] = logCallsIn(code, 'planted.ts');
    expect(call?.event).not.toMatch(/^[a-z][a-z-]*\.[a-z$][a-z0-9-]*$/);
  });
});

/** A small tree of the same shape, with every violation and its own packages. */
function plant(
  folder: string,
  imports: [from: string, to: string][] = [...Object.values(PLANTED).flat(), ...COMPANIONS, ...INNOCENT],
): void {
  const file = (path: string, text: string) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text, { flag: 'a' });
  };
  file('tsconfig.json', '{"compilerOptions":{"module":"nodenext","moduleResolution":"nodenext"}}');
  file(
    'package.json',
    '{"type":"module","dependencies":{"undici":"1","@nats-io/transport-node":"1","rabbitmq-client":"1","@platformatic/kafka":"1"},"devDependencies":{"supertest":"1","typescript":"6"}}',
  );
  for (const name of [
    'undici',
    '@nats-io/transport-node',
    'rabbitmq-client',
    '@platformatic/kafka',
    'supertest',
    'stowaway',
  ]) {
    file(`node_modules/${name}/package.json`, `{"name":"${name}","version":"1.0.0","main":"index.js"}`);
    file(`node_modules/${name}/index.js`, 'module.exports = {};');
  }
  for (const [from, to] of imports) {
    file(
      from,
      `import * as ${to.replace(/\W/g, '_')} from '${to}';\nexport default ${to.replace(/\W/g, '_')};\n`,
    );
  }
  const targets = imports.filter(([, to]) => to.startsWith('.') && !to.includes('nowhere'));
  for (const path of new Set(targets.map(([from, to]) => join(dirname(from), to)))) file(path, '');
  symlinkSync(join(ROOT, 'node_modules/typescript'), join(folder, 'node_modules/typescript'));
}

function violationsIn(folder: string, rules = RULES): Violation[] {
  const folders = ['src', 'migrations', 'test', 'packages', 'console'].filter((name) =>
    existsSync(join(folder, name)),
  );
  const { stdout, stderr } = spawnSync(
    process.execPath,
    [CRUISER, ...folders, '--config', rules, '--output-type', 'json'],
    { cwd: folder, encoding: 'utf8' },
  );
  if (!stdout) throw new Error(stderr);
  return JSON.parse(stdout).summary.violations;
}

interface LogCall {
  at: string;
  /** As written, with `$` for each `${…}`. */
  event: string;
}

function logCalls(path: string): LogCall[] {
  return logCallsIn(read(path), path);
}

/** Calls of a level on something named log or target, with each event that their first argument can have. */
function logCallsIn(code: string, path: string): LogCall[] {
  const source = ts.createSourceFile(path, code, ts.ScriptTarget.Latest, true);
  const calls: LogCall[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && isLogging(node.expression)) {
      const { line } = source.getLineAndCharacterOfPosition(node.getStart());
      for (const event of eventsOf(node.arguments[0])) calls.push({ at: `${path}:${line + 1}`, event });
    }
    node.forEachChild(visit);
  };
  visit(source);
  return calls;
}

function isLogging(callee: ts.Expression): boolean {
  if (!ts.isPropertyAccessExpression(callee)) return false;
  if (!['trace', 'debug', 'info', 'warn', 'error', 'fatal'].includes(callee.name.text)) return false;
  return /(^|\.)(log|target)$/.test(callee.expression.getText());
}

function eventsOf(fields: ts.Expression | undefined): string[] {
  if (!fields || !ts.isObjectLiteralExpression(fields)) return ['(no fields)'];
  const property = fields.properties.find((one) => one.name?.getText() === 'event');
  if (!property) return ['(no event)'];
  return textsOf(ts.isPropertyAssignment(property) ? property.initializer : property.name!);
}

/** The possible texts of an expression: a literal, either branch of a conditional, a constant of those. */
function textsOf(expression: ts.Node): string[] {
  if (ts.isStringLiteral(expression)) return [expression.text];
  if (ts.isConditionalExpression(expression)) {
    return [...textsOf(expression.whenTrue), ...textsOf(expression.whenFalse)];
  }
  if (ts.isTemplateExpression(expression)) {
    return [
      expression
        .getText()
        .slice(1, -1)
        .replace(/\$\{[^}]*\}/g, '$'),
    ];
  }
  const constant = ts.isIdentifier(expression) ? constantOf(expression) : undefined;
  return constant ? textsOf(constant) : ['(computed)'];
}

function constantOf(name: ts.Identifier): ts.Expression | undefined {
  for (let scope: ts.Node | undefined = name.parent; scope; scope = scope.parent) {
    if (!ts.isBlock(scope) && !ts.isSourceFile(scope)) continue;
    const declarations = scope.statements
      .filter((statement) => ts.isVariableStatement(statement))
      .flatMap((statement) => [...statement.declarationList.declarations]);
    const found = declarations.find((declaration) => declaration.name.getText() === name.text);
    if (found) return found.initializer;
  }
  return undefined;
}

function filesIn(folder: string): string[] {
  const names = readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' });
  return names.map((name) => `${folder}/${name.replaceAll('\\', '/')}`);
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}
