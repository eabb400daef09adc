import { randomBytes } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { readDefinitionsFile } from '../../src/definitions/read-definitions-file.ts';
import { Listeners } from '../../src/listeners/listeners.ts';
import type { TestApp } from '../support/app.ts';
import { replicasPerTest } from '../support/replicas-per-test.ts';
import { sealedByPreviousVersion } from '../support/sealed-by-previous-version.ts';

const FOLDER = mkdtempSync(join(tmpdir(), 'sluice-file-'));
const FILE = join(FOLDER, 'listeners.yaml');
const SECRET = `whsec_${randomBytes(32).toString('base64')}`;
const OTHER_SECRET = `whsec_${randomBytes(32).toString('base64')}`;
const KEY = `k1=${randomBytes(32).toString('base64')}`;
const API_MADE = { types: ['a'], url: 'https://1.1.1.1/api' };

const { start, stop, refusal, query } = replicasPerTest({ ROLES: 'api', SECRETS_KEYS: KEY });

/** A replica that starts with this file. */
async function startWith(yaml: string, environment: Record<string, string> = {}): Promise<TestApp> {
  writeFileSync(FILE, yaml);
  return start({ LISTENERS_FILE: FILE, ...environment });
}

/** Why a replica does not start with this file. */
async function faultsOf(yaml: string, environment: Record<string, string> = {}): Promise<string[]> {
  writeFileSync(FILE, yaml);
  const message = await refusal({ LISTENERS_FILE: FILE, ...environment });
  return message.split('\n').map((line) => line.replace(FOLDER, ''));
}

const entry = (name: string, more = '') =>
  `  - name: ${name}\n    types: [${name}/*]\n    url: https://1.1.1.1/${name}\n${more}`;
const listeners = (replica: TestApp) => replica.app.nest.get(Listeners).all();
const names = (replica: TestApp) => listeners(replica).map(({ name }) => name);
const known = (replica: TestApp, name: string) => listeners(replica).find((one) => one.name === name);
const rows = () =>
  query<{ name: string; number: number; revision: string; origin: string; deleted: boolean }>(
    'SELECT name, number, revision, origin, deleted_at IS NOT NULL AS deleted FROM listener ORDER BY name',
  );

describe('LISTENERS_FILE', () => {
  it('creates listeners when a replica starts, before it serves requests', async () => {
    const more = '    timeout: 5s\n    headers: { X-Tenant: blue }\n    rateLimit: { perSecond: 30 }\n';
    const replica = await startWith(`# ours\nlisteners:\n${entry('one')}${entry('two', more)}`);
    expect(names(replica)).toEqual(['one', 'two']);
    expect(known(replica, 'two')).toMatchObject({
      types: ['two/*'],
      timeoutMs: 5_000,
      headers: { 'X-Tenant': 'blue' },
      rateLimit: { perSecond: 30, burst: 30 },
      secrets: [expect.stringMatching(/^whsec_/)],
    });
    const shown = (await replica.call('GET', '/v1/listeners/two')).body;
    expect([shown.origin, shown.stateBy]).toEqual(['file', 'LISTENERS_FILE']);
  });

  it('is applied at each start: listeners are created, replaced, removed; those of the API stay; no change has no effect', async () => {
    const first = await startWith(`listeners:\n${entry('stays')}${entry('changes')}${entry('goes')}`);
    await first.call('PUT', '/v1/listeners/by-api', { body: API_MADE });
    await first.call('POST', '/v1/listeners/changes/pause');
    const secret = known(first, 'changes')!.secrets;
    const before = await rows();

    const yaml = `listeners:\n${entry('stays')}${entry('changes', '    timeout: 3s\n')}${entry('comes')}`;
    const second = await startWith(yaml);
    expect(names(second).sort()).toEqual(['by-api', 'changes', 'comes', 'stays']);
    expect(known(second, 'changes')).toMatchObject({ timeoutMs: 3_000, state: 'paused', secrets: secret });
    const after = await rows();
    const row = (all: typeof after, name: string) => all.find((one) => one.name === name);
    expect(row(after, 'stays')).toEqual(row(before, 'stays'));
    expect(row(after, 'by-api')).toEqual(row(before, 'by-api'));
    expect(row(after, 'goes')).toMatchObject({ deleted: true });

    await startWith(yaml);
    expect(await rows()).toEqual(after);
    const third = await startWith(`listeners:\n${entry('goes')}`);
    expect(known(third, 'goes')?.number).toBe(row(before, 'goes')!.number);
    const fourth = await startWith('listeners: []\n');
    expect(names(fourth)).toEqual(['by-api']);
  });

  it('finds a listener of the previous version unchanged; another URL is a change, and logged by name only', async () => {
    const first = await startWith(`listeners:\n${entry('kept')}`);
    const { secrets } = known(first, 'kept')!;
    const content = { secrets: secrets.map((secret) => ({ secret })), headers: {} };
    await query(`UPDATE listener SET sealed = $1, definition = definition - 'urlOrigin' || $2`, [
      sealedByPreviousVersion('kept', content, KEY),
      JSON.stringify({ url: 'https://1.1.1.1/kept' }),
    ]);
    const before = await rows();
    const second = await startWith(`listeners:\n${entry('kept')}`);
    expect(await rows()).toEqual(before);
    expect(known(second, 'kept')!.url).toBe('https://1.1.1.1/kept');

    const third = await startWith(`listeners:\n${entry('kept').replace('/kept\n', '/canary\n')}`);
    expect(known(third, 'kept')).toMatchObject({ url: 'https://1.1.1.1/canary', secrets });
    const { items } = (await third.call('GET', '/v1/audit?action=listener.*')).body;
    expect(items[0].reason).toBe('changed: url');
    const after = await rows();
    await startWith(`listeners:\n${entry('kept').replace('/kept\n', '/canary\n')}`);
    expect(await rows()).toEqual(after);
  });

  it('that is not set removes nothing', async () => {
    await startWith(`listeners:\n${entry('kept')}`);
    expect(names(await start({}))).toEqual(['kept']);
  });

  it('is applied once when ten replicas start together', async () => {
    writeFileSync(FILE, `listeners:\n${entry('a')}${entry('b')}${entry('c')}`);
    const environment = { LISTENERS_FILE: FILE, DATABASE_POOL_SIZE: '4' };
    const ten = await Promise.all(Array.from({ length: 10 }, () => start(environment)));
    for (const replica of ten) expect(names(replica)).toEqual(['a', 'b', 'c']);
    expect((await rows()).map(({ revision }) => Number(revision))).toEqual([1, 2, 3]);
    expect(await query('SELECT target FROM audit')).toHaveLength(3);
    expect(new Set(ten.map((replica) => known(replica, 'a')?.secrets[0])).size).toBe(1);
  });

  it('writes an audit entry for each real change, with the changed fields and without values', async () => {
    const changing = (more: string) => `listeners:\n${entry('stays')}${entry('changes', more)}`;
    await startWith(`${changing('')}${entry('goes')}`);
    await startWith(changing(`    timeout: 3s\n    headers: { X-Token: hush }\n    secret: ${SECRET}\n`));
    await startWith(changing(`    headers: { X-Token: hush }\n    secret: ${SECRET}\n`));
    const last = `${changing(`    headers: { X-Token: other }\n    secret: ${SECRET}\n`)}${entry('goes')}`;
    await startWith(last);
    const replica = await startWith(last);
    await expect(
      startWith(`listeners:\n${entry('new')}${entry('stays', '    lanes: 5\n')}`),
    ).rejects.toThrow();

    const { items } = (await replica.call('GET', '/v1/audit?action=listener.*')).body;
    const lines = items.map((item: Record<string, string>) => [
      item.by,
      item.action,
      item.target,
      item.reason,
    ]);
    expect(lines.reverse()).toEqual(
      [
        ['listener.put', 'stays', 'created'],
        ['listener.put', 'changes', 'created'],
        ['listener.put', 'goes', 'created'],
        ['listener.put', 'changes', 'changed: headers, secret, timeout'],
        ['listener.delete', 'goes', null],
        ['listener.put', 'changes', 'changed: timeout'],
        ['listener.put', 'changes', 'changed: headers'],
        ['listener.put', 'goes', 'created'],
      ].map((line) => ['LISTENERS_FILE', ...line]),
    );
  });

  it('may contain a secret or name its file; another secret is a rotation', async () => {
    writeFileSync(join(FOLDER, 'secret'), `${OTHER_SECRET}\n`);
    const yaml = (line: string) => `listeners:\n${entry('signed', `    ${line}\n`)}`;
    const first = await startWith(yaml(`secret: ${SECRET}`));
    expect(known(first, 'signed')?.secrets).toEqual([SECRET]);
    const second = await startWith(yaml('secretFile: secret'));
    expect(known(second, 'signed')?.secrets).toEqual([OTHER_SECRET, SECRET]);
    expect((await second.call('POST', '/v1/listeners/signed/rotate-secret')).status).toBe(409);
    const third = await startWith(`listeners:\n${entry('signed')}`);
    expect(known(third, 'signed')?.secrets).toEqual([OTHER_SECRET, SECRET]);
    expect((await third.call('POST', '/v1/listeners/signed/rotate-secret')).status).toBe(200);
  });

  it('owns its listeners: the API may pause and test, not change or delete them', async () => {
    const replica = await startWith(`listeners:\n${entry('fixed')}`);
    for (const [method, path, body] of [
      ['PUT', '', API_MADE],
      ['DELETE', '', undefined],
    ] as const) {
      const response = await replica.call(method, `/v1/listeners/fixed${path}`, body ? { body } : {});
      expect([response.status, response.body.detail]).toEqual([
        409,
        expect.stringContaining('LISTENERS_FILE'),
      ]);
    }
    expect((await replica.call('POST', '/v1/listeners/fixed/pause')).status).toBe(200);
    expect((await replica.call('POST', '/v1/listeners/fixed/rotate-secret')).status).toBe(200);
  });

  it('of the demonstration is valid', async () => {
    const path = resolve(import.meta.dirname, '../../deploy/compose/listeners.yaml');
    expect(
      await readDefinitionsFile(path, {
        urlRefusal: async () => undefined,
        checkServer: async () => ({ kind: 'allowed' }),
        leaseMs: 60_000,
      }),
    ).toMatchObject({
      kind: 'definitions',
      definitions: { listeners: [{ name: 'receiver' }] },
    });
  });
});

describe('an invalid LISTENERS_FILE', () => {
  it('is reported error by error with the line, and nothing of it is applied', async () => {
    const faults = await faultsOf(
      [
        '# line 1', // 1
        'listeners:', // 2
        '  - name: good', // 3
        '    types: [a]', // 4
        '    url: https://1.1.1.1/', // 5
        '  - name: -bad', // 6
        '    types:', // 7
        '      - fine', // 8
        '      - ""', // 9
        '    url: http://127.0.0.1/', // 10
        '    timeuot: 5s', // 11
        '  - types: [b]', // 12
        '    url: https://1.1.1.1/', // 13
        '    rateLimit:', // 14
        '      perSecond: 0', // 15
        '    secret: too-short', // 16
        '  - just a text', // 17
        '  - name: good', // 18
        '    types: [c]', // 19
        'other: 5', // 20
      ].join('\n'),
    );
    const line = (number: number) =>
      faults.filter((fault) => fault.startsWith(`/listeners.yaml:${number}: `));
    expect(line(6)[0]).toMatch(/listeners\[1\]\.name must be 1 to 63/);
    expect(line(9)[0]).toMatch(/listeners\[1\]\.types\[1\] must be a type/);
    expect(line(10)[0]).toMatch(/listeners\[1\]\.url is refused: /);
    expect(line(11)[0]).toMatch(/listeners\[1\]\.timeuot is not a known field; did you mean "timeout"\?/);
    expect(line(12)[0]).toMatch(/listeners\[2\]\.name is required/);
    expect(line(15)[0]).toMatch(/listeners\[2\]\.rateLimit\.perSecond must be a number/);
    expect(line(16)[0]).toMatch(/listeners\[2\]\.secret must be "whsec_" and 24 to 64 bytes/);
    expect(line(17)[0]).toMatch(/listeners\[3\] must be a mapping/);
    expect(line(18).join()).toMatch(/listeners\[4\]\.name is also the name of listeners\[0\]/);
    expect(line(18).join()).toMatch(/listeners\[4\]\.url is required/);
    expect(line(20)[0]).toMatch(/other is not known here/);
    expect(faults).toHaveLength(11);
    expect(faults.join()).not.toContain('too-short');
    expect(await rows()).toEqual([]);
  });

  it.each<[what: string, yaml: string, fault: RegExp]>([
    ['invalid YAML', 'listeners:\n  - name: [a\n', /^\/listeners.yaml:\d+: /],
    [
      'a duplicate field',
      'listeners:\n  - name: a\n    name: b\n',
      /^\/listeners.yaml:3: Map keys must be unique/,
    ],
    ['a tab', 'listeners:\n\t- name: a\n', /^\/listeners.yaml:2: /],
    ['two documents', 'listeners: []\n---\nlisteners: []\n', /^\/listeners.yaml:2: /],
    ['an unknown alias', 'listeners: *nobody\n', /^\/listeners.yaml:1: /],
    ['nothing', '', /^\/listeners.yaml:1: the file must have the list "listeners"/],
    ['a list', '- name: a\n', /^\/listeners.yaml:1: the file must have the list/],
    ['something that is not a list', 'listeners: 5\n', /^\/listeners.yaml:1: listeners must be a list/],
    ['an unknown key', 'listeners:\n  - __proto__: 5\n', /^\/listeners.yaml:2: /],
    [
      'both secrets',
      `listeners:\n${entry('a', '    secret: x\n    secretFile: y\n')}`,
      /:6: .*combined with "secret"/,
    ],
    [
      'a secret file that does not exist',
      `listeners:\n${entry('a', '    secretFile: no\n')}`,
      /:5: .*ENOENT/,
    ],
  ])('is not read: %s', async (_what, yaml, fault) => {
    writeFileSync(FILE, yaml);
    const read = await readDefinitionsFile(FILE, {
      urlRefusal: async () => undefined,
      checkServer: async () => ({ kind: 'allowed' }),
      leaseMs: 60_000,
    });
    expect(read.kind === 'invalid' && read.faults[0]!.replace(FOLDER, '')).toMatch(fault);
  });

  it('never shows a secret next to the error', async () => {
    const faults = await faultsOf(`listeners:\n  - name: a\n    secret: ${SECRET}\n   bad: [\n`);
    expect(faults.join('\n')).not.toContain(SECRET.slice(6, 20));
  });

  it('that does not exist is reported by name', async () => {
    const missing = start({ LISTENERS_FILE: join(FOLDER, 'missing.yaml') });
    await expect(missing).rejects.toThrow(/LISTENERS_FILE=.*missing\.yaml cannot be read \(ENOENT\)/);
  });

  it('conflicts with a listener of the API, or with its own lanes: nothing is applied', async () => {
    const replica = await startWith(`listeners:\n${entry('laned', '    lanes: 4\n')}`);
    await replica.call('PUT', '/v1/listeners/taken', { body: API_MADE });
    const before = await rows();
    const yaml = `listeners:\n${entry('fresh')}${entry('taken')}${entry('laned', '    lanes: 5\n')}`;
    expect(await faultsOf(yaml)).toEqual([
      expect.stringMatching(/^\/listeners.yaml:5: listener taken was created by API; rename this one/),
      expect.stringMatching(/^\/listeners.yaml:8: listener laned has 4 lanes, which cannot change/),
    ]);
    expect(await rows()).toEqual(before);
  });

  it('whose secrets a replica cannot read does not get new secrets', async () => {
    const first = await startWith(`listeners:\n${entry('sealed')}`);
    const before = await rows();
    const other = `k2=${randomBytes(32).toString('base64')}`;
    const yaml = `listeners:\n${entry('sealed', '    timeout: 2s\n')}`;
    expect(await faultsOf(yaml, { SECRETS_KEYS: other })).toEqual([
      expect.stringMatching(
        /:2: listener sealed has secrets that cannot be read \(key k1 is not in SECRETS_KEYS\)/,
      ),
    ]);
    expect(await rows()).toEqual(before);
    await stop(first);
    const given = `listeners:\n${entry('sealed', `    secret: ${SECRET}\n`)}`;
    expect(known(await startWith(given, { SECRETS_KEYS: other }), 'sealed')?.secrets).toEqual([SECRET]);
  });
});
