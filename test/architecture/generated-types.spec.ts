import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import openapiTS, { astToString } from 'openapi-typescript';
import { sharedReplica } from '../support/shared-replica.ts';

const TSC = resolve(import.meta.dirname, '../../node_modules/typescript/bin/tsc');

/** A client of a few lines, typed by the document alone. */
const CLIENT = `
import type { paths } from './api.js';

type Success = 200 | 201 | 202;
type Body<Operation> = Operation extends { responses: infer Responses }
  ? { [Status in keyof Responses & Success]: Responses[Status] extends { content: { 'application/json': infer Json } } ? Json : never }[keyof Responses & Success]
  : never;
type Query<Operation> = Operation extends { parameters: { query?: infer Parameters } } ? Parameters : never;
type Gets = { [Path in keyof paths]: paths[Path] extends { get: object } ? Path : never }[keyof paths];

export declare function get<Path extends Gets>(path: Path, query?: Query<paths[Path]['get']>): Promise<Body<paths[Path]['get']>>;
export declare function post<Path extends '/v1/messages' | '/v1/listeners/{name}/pull'>(
  path: Path,
  body: NonNullable<paths[Path]['post']['requestBody']>['content']['application/json'],
): Promise<Body<paths[Path]['post']>>;
`;

const USE = `
import type { components } from './api.js';
import { get, post } from './client.js';

type Listener = components['schemas']['Listener'];

export async function summary(): Promise<string[]> {
  const { items, next } = await get('/v1/dead-letters', { stage: 'group', limit: 100 });
  const cursor: string | null = next;
  const message = await get('/v1/messages/{id}');
  const attempts = message.deliveries.flatMap(({ attempts }) => attempts.map(({ status }) => status ?? 0));
  const why = await get('/v1/messages/{id}/why');
  const until = why.waitsFor.kind === 'hold' ? why.waitsFor.until : null;
  const { inbox, listeners } = await get('/v1/backlog');
  const names: Listener['name'][] = listeners.map(({ name }) => name);
  const accepted = await post('/v1/messages', { type: 'order.placed', payload: [1, null, 'any'] });
  const pulled = await post('/v1/listeners/{name}/pull', { max: 10, wait: '20s' });
  const { status } = await get('/readyz');
  const ready: 'ready' = status;
  return [ready, String(cursor), String(until), ...names, ...attempts.map(String), String(inbox.ready),
    ...items.map(({ id, waiting }) => id + waiting), 'id' in accepted ? accepted.status : '', pulled.leaseFor];
}
`;

/** What the console reads with GET, with its type of each body. */
const CONSOLE: readonly (readonly [path: string, type: string])[] = [
  ['/v1/session', 'Session'],
  ['/v1/backlog', 'Backlog'],
  ['/v1/attention', 'Attention'],
  ['/v1/activity', 'Activity'],
  ['/v1/find', '{ items: readonly Found[] }'],
  ['/v1/messages', 'Page<MessageSummary>'],
  ['/v1/messages/{id}', 'Message'],
  ['/v1/messages/{id}/why', 'Why'],
  ['/v1/listeners/{name}/deliveries', 'Page<ListedDelivery>'],
  ['/v1/deliveries/{id}', 'DeliveryDetail'],
  ['/v1/listeners', 'Page<Listener>'],
  ['/v1/listeners/{name}', 'Listener'],
  ['/v1/listeners/{name}/replays/{id}', 'ReplayJob'],
  ['/v1/topics', 'Page<Topic>'],
  ['/v1/topics/{topic}', 'Topic'],
  ['/v1/topics/{topic}/messages', '{ messages: readonly TopicEntry[]; to: number | null; next: number }'],
  ['/v1/groups', 'Page<GroupSummary>'],
  ['/v1/groups/{group}', 'Group'],
  ['/v1/dead-letters/groups', 'Page<DeadLetterGroup>'],
  ['/v1/dead-letters', 'Page<DeadLetter>'],
  ['/v1/dead-letters/rulings', 'Page<RulingJob>'],
  ['/v1/dead-letters/rulings/{id}', 'RulingJob'],
  ['/v1/replays', 'Page<ReplayJob>'],
  ['/v1/holds', 'Page<Hold>'],
  ['/v1/keys/{key}', 'KeyView'],
  ['/v1/schedules', 'Page<Schedule>'],
  ['/v1/read-models', '{ items: readonly models.ReadModel[] }'],
  ['/v1/read-models/{name}', 'models.ReadModel'],
  ['/v1/audit', 'Page<AuditEntry>'],
  ['/v1/replicas', 'Page<Replica>'],
  ['/v1/settings', '{ items: readonly Setting[] }'],
  ['/v1/api-keys', 'Page<ApiKey>'],
];

/** What it reads of the responses to what it does; a dry run may have another response. */
const CONSOLE_ACTIONS: readonly (readonly [method: string, path: string, type: string])[] = [
  ['post', '/v1/session', 'Session'],
  ['put', '/v1/listeners/{name}', 'Listener & { secret?: string }'],
  ['post', '/v1/listeners/{name}/test', 'PingOutcome'],
  ['post', '/v1/listeners/{name}/replay', '{ id: string }'],
  ['post', '/v1/listeners/{name}/replay', '{ matched: number; more?: boolean }'],
  ['post', '/v1/listeners/{name}/rotate-secret', '{ secret: string }'],
  ['post', '/v1/groups/{group}/seek', 'SeekResult'],
  ['post', '/v1/dead-letters/revive', '{ id: string }'],
  ['post', '/v1/dead-letters/revive', '{ matched: number }'],
  ['post', '/v1/dead-letters/discard', '{ id: string }'],
  ['post', '/v1/dead-letters/discard', '{ matched: number }'],
  ['post', '/v1/api-keys', '{ key: string }'],
];

const SOURCES = resolve(import.meta.dirname, '../../console/src');
/** The type as the compiler finds it: names without a namespace are those of `api-types.ts`. */
const qualified = (type: string) => type.replace(/(?<!\.)\b[A-Z]\w+/g, 'console.$&');

/** What the console reads must be described, and be what it takes it for. */
const CONSOLE_USE = `
import type { components, paths } from './api.js';
import type * as console from '${SOURCES}/api-types.ts';
import type * as models from '${SOURCES}/screens/read-models/types.ts';
type Body<Path extends keyof paths> =
  paths[Path] extends { get: { responses: { 200: { content: { 'application/json': infer Json } } } } } ? Json : never;
/** Members of the console's type that the document lacks. */
type Undescribed<Read, Described> = Read extends string | number | boolean | null | undefined ? never
  : string extends keyof Read ? never
  : Read extends readonly (infer One)[] ? Undescribed<One, Described extends readonly (infer Item)[] ? Item : never>
  : { [Member in keyof Read & string]: Member extends KeysOf<NonNullable<Described>>
      ? Undescribed<NonNullable<Read[Member]>, Member1<NonNullable<Described>, Member>> : Member }[keyof Read & string];
type KeysOf<Union> = Union extends unknown ? keyof Union : never;
type Member1<Union, Member> = Union extends unknown ? Member extends keyof Union ? NonNullable<Union[Member]> : never : never;
declare const described: { [Path in keyof paths]: Body<Path> } & { snapshot: components['schemas']['LiveSnapshot'] };
export function check(..._: console.Snapshot[]): void {}
check(described.snapshot);
${CONSOLE.map(([path, type]) => `((_: ${qualified(type)}) => {})(described['${path}']);`).join('\n')}
${CONSOLE.map(([path, type]) => `((_: '${path}', __: never) => {})('${path}', null! as Undescribed<${qualified(type)}, Body<'${path}'>>);`).join('\n')}
export const snapshotHasMore: never = null! as Undescribed<console.Snapshot, components['schemas']['LiveSnapshot']>;
type Result<Operation> = Operation extends { responses: infer Responses }
  ? { [Status in keyof Responses & (200 | 201 | 202)]: Responses[Status] extends { content: { 'application/json': infer Json } } ? Json : never }[keyof Responses & (200 | 201 | 202)]
  : never;
/** The responses that have all of it: never without one. */
type Having<Responses, Read> = Responses extends Read ? Undescribed<Read, Responses> extends never ? 'described' : never : never;
${CONSOLE_ACTIONS.map(([method, path, type]) => `export const ${nameOf(method, path, type)}: [Having<Result<paths['${path}']['${method}']>, ${qualified(type)}>] = ['described'];`).join('\n')}
`;

function nameOf(...texts: string[]): string {
  return texts.join('_').replaceAll(/\W+/g, '_');
}

/** Every typed request in the sources of the console, as `method /path`, where `{}` is what it inserts. */
function requestsOfConsole(): string[] {
  const files = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).filter((file) =>
    /(?<!^api|^load)\.tsx?$/.test(file),
  );
  return files.flatMap((file) => {
    const source = readFileSync(join(SOURCES, file), 'utf8');
    return [
      ...source.matchAll(/\b(useGet|usePages|get|send)<[^()]*?>\(\s*(?:'(\w+)')?.*?['`](v1\/.*?)['`]/gs),
    ].map(
      ([, , method = 'GET', path]) => `${method.toLowerCase()} /${path!.replaceAll(/\$\{[^}]*\}/g, '{}')}`,
    );
  });
}

/** Whether it is one of the operations above. */
function isCompared(request: string): boolean {
  const pattern = new RegExp(`^${request.replaceAll('{}', '[^/]+')}$`);
  const compared = [
    ...CONSOLE.map(([path]) => `get ${path}`),
    ...CONSOLE_ACTIONS.map(([method, path]) => `${method} ${path}`),
  ];
  return compared.some((operation) => pattern.test(operation));
}

const MISTAKES = [
  ['a misspelt member', `get('/v1/backlog').then(({ inbox }) => inbox.redy)`, 'TS2551'],
  ['a value that may be null', `get('/v1/holds').then(({ items }) => items[0]!.until.length)`, 'TS2531'],
  ['a stage that does not exist', `get('/v1/dead-letters', { stage: 'lost' })`, 'TS2322'],
  ['a parameter of another type', `get('/v1/messages', { limit: '5' })`, 'TS2322'],
  ['a parameter that does not exist', `get('/v1/messages', { limits: 5 })`, 'TS2561'],
  ['a body without a required member', `post('/v1/messages', { type: 'x' })`, 'TS2345'],
  ['a route that does not exist', `get('/v1/message')`, 'TS2345'],
] as const;

const { replica } = sharedReplica();
const folder = mkdtempSync(join(tmpdir(), 'sluice-types-'));
let errors: string[];

beforeAll(async () => {
  const document = (await replica.call('GET', '/openapi.json', { key: null })).text;
  // Else a member of a request with a default would be required.
  writeFileSync(
    join(folder, 'api.d.ts'),
    astToString(await openapiTS(document, { defaultNonNullable: false })),
  );
  writeFileSync(join(folder, 'client.ts'), CLIENT);
  writeFileSync(join(folder, 'use.ts'), USE);
  writeFileSync(join(folder, 'console.ts'), CONSOLE_USE);
  MISTAKES.forEach(([, mistake], index) => {
    const source = `import { get, post } from './client.js';\nvoid [get, post, ${mistake}];\n`;
    writeFileSync(join(folder, `mistake-${index}.ts`), source);
  });
  errors = compile();
});
afterAll(() => rmSync(folder, { recursive: true }));

describe('the types that openapi-typescript generates', () => {
  it('are enough for a client that compiles with strict', () => {
    expect(errors.filter((line) => !line.startsWith('mistake-'))).toEqual([]);
  });

  it('are compared with everything that the console reads', () => {
    const requests = requestsOfConsole();
    expect(requests.length).toBeGreaterThan(40);
    expect(requests.filter((request) => !isCompared(request))).toEqual([]);
  });

  it.each(MISTAKES.map(([name, , code], index) => ({ name, code, index })))(
    'refuse $name',
    ({ code, index }) => {
      const found = errors.filter((line) => line.startsWith(`mistake-${index}.ts`));
      expect(found).toEqual([expect.stringContaining(`error ${code}:`)]);
    },
  );
});

/** The errors, one line each. */
function compile(): string[] {
  const files = ['use.ts', 'console.ts', ...MISTAKES.map((_, index) => `mistake-${index}.ts`)];
  const options = [
    '--strict',
    '--noEmit',
    '--allowImportingTsExtensions',
    '--skipLibCheck',
    'false',
    '--module',
    'nodenext',
    '--target',
    'es2023',
  ];
  const run = spawnSync(process.execPath, [TSC, ...options, ...files], { cwd: folder, encoding: 'utf8' });
  return run.stdout.split('\n').filter((line) => /^\S.* TS\d+: /.test(line));
}
