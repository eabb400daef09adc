import { createHash } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ADMIN_KEY, type ApiResponse, startApp } from '../support/app.ts';
import { sharedReplica } from '../support/shared-replica.ts';

const SHOP = 'sk_shop_0123456789abcdefghij';
const KEYED = 'sk_keyed_0123456789abcdefghij';
const SOURCED = 'sk_sourced_0123456789abcdefghij';
const FREE = 'sk_free_0123456789abcdefghij';
const API_KEYS = [
  `admin=admin:${ADMIN_KEY}`,
  `shop=produce[source=urn:shop/,key=shop-,key=cart-]:${SHOP}`,
  `keyed=produce+read[key=k-]:${KEYED}`,
  `sourced=produce[source=urn:a/,source=urn:b/]:${SOURCED}`,
  `free=produce:${FREE}`,
].join(',');
const TYPE = 'urn:x:bound';

const { database, replica } = sharedReplica({ API_KEYS, ROLES: 'api' });
beforeAll(async () => {
  const body = { types: ['bound'], partitions: 1 };
  expect((await replica.call('PUT', '/v1/topics/bound', { body })).status).toBe(201);
});
beforeEach(() => database.query('TRUNCATE inbox, producer').then(() => undefined));

interface Content {
  readonly id?: string;
  readonly source?: string;
  readonly key?: string;
}
type Headers = Record<string, string>;
type Post = (key: string, contents: readonly Content[], headers?: Headers) => Promise<ApiResponse>;

const native = ({ id, key }: Content) => ({ type: TYPE, payload: 1, id, key });
const event = ({ id = 'e', source = 'urn:none', key }: Content) => ({
  ...{ specversion: '1.0', type: TYPE, id, source, data: 1 },
  ...(key === undefined ? {} : { partitionkey: key }),
});
const JSON_TYPE = { 'content-type': 'application/json' };
const post = (key: string, path: string, body: unknown, headers: Headers) =>
  replica.call('POST', path, { key, headers, body: JSON.stringify(body) });

/** Every way to post; those for one message get the last one. */
const MODES: Record<string, { readonly many: boolean; readonly events: boolean; readonly post: Post }> = {
  native: {
    ...{ many: false, events: false },
    post: (key, all, more) => post(key, '/v1/messages', native(all.at(-1)!), { ...JSON_TYPE, ...more }),
  },
  'native of a topic': {
    ...{ many: false, events: false },
    post: (key, all, more) => {
      const { type: _, ...content } = native(all.at(-1)!);
      return post(key, '/v1/topics/bound/messages', content, { ...JSON_TYPE, ...more });
    },
  },
  'native batch': {
    ...{ many: true, events: false },
    post: (key, all, more) =>
      post(key, '/v1/messages/batch', { messages: all.map(native) }, { ...JSON_TYPE, ...more }),
  },
  'structured CloudEvent': {
    ...{ many: false, events: true },
    post: (key, all, more) =>
      post(key, '/v1/messages', event(all.at(-1)!), {
        'content-type': 'application/cloudevents+json',
        ...more,
      }),
  },
  'CloudEvents batch': {
    ...{ many: true, events: true },
    post: (key, all, more) =>
      post(key, '/v1/messages', all.map(event), {
        'content-type': 'application/cloudevents-batch+json',
        ...more,
      }),
  },
  'binary CloudEvent': {
    ...{ many: false, events: true },
    post: (key, all, more) => {
      const { data, ...attributes } = event(all.at(-1)!);
      const headers = Object.entries(attributes).map(([name, value]) => [`ce-${name}`, value]);
      return post(key, '/v1/messages', data, { ...JSON_TYPE, ...Object.fromEntries(headers), ...more });
    },
  },
};
const modes = (wanted: (mode: (typeof MODES)[string]) => boolean = () => true) =>
  Object.keys(MODES).filter((name) => wanted(MODES[name]!));
const stored = async () => (await database.query('SELECT FROM inbox')).length;

const FOREIGN_SOURCE = 'is of a source that this api key is not bound to';
const FOREIGN_KEY = 'is of a key that this api key is not bound to';
const FOREIGN_ID = 'has no key, so its id is its key, and this api key is not bound to that';

describe('an API key that is bound to keys', () => {
  it.each(modes())('posts messages of these keys, as %s', async (mode) => {
    const contents = [
      { id: 'm-1', source: 'urn:shop/1', key: 'shop-1' },
      { id: 'm-2', source: 'urn:shop/1', key: 'cart-' },
    ];
    expect((await MODES[mode]!.post(SHOP, contents)).status).toBe(202);
    expect(await stored()).toBe(MODES[mode]!.many ? 2 : 1);
  });

  it.each(
    modes().flatMap((mode) =>
      [
        ['another key', { key: 'till-1' }, FOREIGN_KEY],
        ['a key that only contains it', { key: 'x-shop-1' }, FOREIGN_KEY],
        ['a key of other case', { key: 'SHOP-1' }, FOREIGN_KEY],
        ['half of the prefix', { key: 'shop' }, FOREIGN_KEY],
        ['no key', { id: 'till-1' }, FOREIGN_ID],
      ].map(([what, content, detail]) => [mode, what, content, detail] as [string, string, Content, string]),
    ),
  )('is refused as %s of %s, and nothing is stored', async (mode, _what, content, detail) => {
    const { many, post: send } = MODES[mode]!;
    const good = { id: 'm-1', source: 'urn:shop/1', key: 'shop-1' };
    const response = await send(SHOP, [good, { id: 'm-2', source: 'urn:shop/1', ...content }]);
    expect([response.status, response.body.type]).toEqual([403, 'urn:sluice:problems/foreign']);
    const pointer = many ? (mode === 'native batch' ? '/messages/1' : '/1') : '';
    expect(response.body.errors).toEqual([{ pointer, detail }]);
    expect(response.body.detail).toBe(
      `A message ${detail}. It is bound to sources that begin with "urn:shop/" and keys that begin with "shop-" or "cart-".`,
    );
    expect(await stored()).toBe(0);
  });

  it('is checked by the id if there is no key, whoever chose the id', async () => {
    const send = MODES.native!.post;
    expect((await send(KEYED, [{}])).body.errors).toEqual([{ pointer: '', detail: FOREIGN_ID }]);
    expect((await send(KEYED, [{ id: 'k-1' }])).status).toBe(202);
    expect((await send(KEYED, [{}], { 'idempotency-key': 'k-2' })).status).toBe(202);
    expect((await send(KEYED, [{}], { 'idempotency-key': 'x' })).status).toBe(403);
    const subject = { ...event({ id: 'x' }), subject: 'other' };
    const structured = { 'content-type': 'application/cloudevents+json' };
    expect((await post(KEYED, '/v1/messages', subject, structured)).status).toBe(403);
    expect((await post(KEYED, '/v1/messages', { ...subject, subject: 'k-3' }, structured)).status).toBe(202);
    // The partition key has precedence over the subject: an allowed subject does not help.
    const both = { ...subject, subject: 'k-3', partitionkey: 'other' };
    expect((await post(KEYED, '/v1/messages', both, structured)).status).toBe(403);
  });
});

describe('an API key that is bound to sources', () => {
  it.each(modes(({ events }) => events))('posts for these sources and no other, as %s', async (mode) => {
    const { many, post: send } = MODES[mode]!;
    for (const source of ['urn:a/', 'urn:b/x'])
      expect((await send(SOURCED, [{ id: source, source, key: 'any' }])).status).toBe(202);
    const bad = ['urn:c/', 'urn:a', 'URN:a/', 'xurn:a/'].map((source) => ({ id: 'z', source, key: 'any' }));
    for (const content of bad) {
      const response = await send(SOURCED, [content]);
      expect([content, response.status]).toEqual([content, 403]);
      expect(response.body.errors).toEqual([{ pointer: many ? '/0' : '', detail: FOREIGN_SOURCE }]);
    }
    expect(await stored()).toBe(2);
  });

  it.each(modes(({ events }) => !events))('may always use its own name as source, as %s', async (mode) => {
    expect((await MODES[mode]!.post(SOURCED, [{ id: 'm', key: 'any' }])).status).toBe(202);
    expect(await database.query('SELECT source FROM inbox')).toEqual([
      { source: 'urn:sluice:api-keys/sourced' },
    ]);
  });
});

describe('a batch with foreign messages', () => {
  it.each(modes(({ many }) => many))(
    'is refused as a whole, with every foreign message listed, as %s',
    async (mode) => {
      const contents = Array.from({ length: 1_000 }, (_, n) => ({
        id: `m-${n}`,
        source: n % 2 ? 'urn:shop/' : 'urn:till/',
        key: n % 3 ? 'shop-1' : 'till-1',
      }));
      const { events, post: send } = MODES[mode]!;
      const response = await send(SHOP, contents);
      expect(response.status).toBe(403);
      const expected = contents.flatMap(({ source, key }, n) => [
        ...(events && source === 'urn:till/' ? [[n, FOREIGN_SOURCE]] : []),
        ...(key === 'till-1' ? [[n, FOREIGN_KEY]] : []),
      ]);
      const reported = response.body.errors.map(
        ({ pointer, detail }: { pointer: string; detail: string }) => [
          Number(pointer.split('/').at(-1)),
          detail,
        ],
      );
      expect(reported).toEqual(expected);
      expect(await stored()).toBe(0);
    },
  );
});

describe('a producer with a bound API key', () => {
  const sequence = (n: number) => ({ 'producer-id': 'p', 'producer-sequence': String(n) });
  const send = MODES.native!.post;

  it('uses no number when it is refused', async () => {
    expect((await send(SHOP, [{ id: 'm-1', key: 'shop-1' }], sequence(1))).status).toBe(202);
    expect((await send(SHOP, [{ id: 'm-2', key: 'till-1' }], sequence(2))).status).toBe(403);
    expect((await send(SHOP, [{ id: 'm-3', key: 'shop-1' }], sequence(2))).body).toEqual({
      id: 'm-3',
      status: 'pending',
    });
  });

  it('affects no number and no id of another API key, bound or not', async () => {
    const both = [SHOP, FREE];
    for (const key of both) {
      const response = await send(key, [{ key: 'shop-1' }], { ...sequence(1), 'idempotency-key': 'one' });
      expect([response.status, response.body]).toEqual([202, { id: 'one', status: 'pending' }]);
    }
    expect((await send(FREE, [{ id: 'm', key: 'shop-1' }], sequence(9))).body.gap).toEqual({
      from: 2,
      to: 8,
    });
    const next = await send(SHOP, [{ id: 'm', key: 'shop-1' }], sequence(2));
    expect([next.status, next.body]).toEqual([202, { id: 'm', status: 'pending' }]);
  });

  it('that numbers events of a shared source has its own sequence, too', async () => {
    const events = MODES['structured CloudEvent']!.post;
    const content = { source: 'urn:shop/', key: 'shop-1' };
    expect((await events(FREE, [{ ...content, id: 'a' }], sequence(1))).status).toBe(202);
    expect((await events(SHOP, [{ ...content, id: 'b' }], sequence(1))).status).toBe(202);
  });
});

describe('an API key that is created with a binding', () => {
  const create = (body: unknown) => replica.call('POST', '/v1/api-keys', { body });

  it('is listed with its binding, which applies', async () => {
    const bound = { sources: ['urn:made/'], keys: ['made,[-'] };
    const made = await create({ name: 'made', scopes: ['produce'], ...bound });
    expect([made.status, made.body]).toEqual([201, expect.objectContaining(bound)]);
    const { items } = (await replica.call('GET', '/v1/api-keys')).body;
    expect(items).toEqual([expect.objectContaining({ name: 'made', ...bound })]);
    const { items: audit } = (await replica.call('GET', '/v1/audit?action=api-key.create')).body;
    expect(audit[0].target).toBe(`made (${made.body.id}): produce; sources urn:made/; keys made,[-`);

    const { key } = made.body;
    const events = MODES['structured CloudEvent']!.post;
    expect((await events(key, [{ source: 'urn:made/', key: 'made,[-1' }])).status).toBe(202);
    expect((await events(key, [{ source: 'urn:made/', key: 'other' }])).status).toBe(403);
    expect((await events(key, [{ source: 'urn:other/', key: 'made,[-1' }])).status).toBe(403);
  });

  it('is listed without a binding if it has none', async () => {
    const made = await create({ name: 'unbound', scopes: ['produce'], sources: null });
    expect(made.body).toMatchObject({ sources: null, keys: null });
  });

  it('is refused by a version that does not know bindings, instead of being unrestricted', async () => {
    const { id, key } = (await create({ name: 'newer', scopes: ['produce'], keys: ['a'] })).body;
    const secret = key.split('_').slice(2).join('_');
    const [row] = await database.query<{ secret_hash: Buffer }>(
      'SELECT secret_hash FROM api_key WHERE id = $1',
      [id],
    );
    expect(row!.secret_hash).not.toEqual(createHash('sha256').update(secret).digest());
    // Nor does it work unbound: the binding cannot be removed in the table.
    expect((await MODES.native!.post(key, [{ key: 'a' }])).status).toBe(202);
    await database.query(`UPDATE api_key SET keys = NULL WHERE id = $1`, [id]);
    const other = await startApp(database, { API_KEYS, ROLES: 'api' });
    const response = await other.call('POST', '/v1/messages', { key, body: native({ key: 'b' }) });
    await other.close();
    expect(response.status).toBe(401);
  });

  it.each<[what: string, body: Record<string, unknown>, pointer: string, detail: RegExp]>([
    ['no source', { sources: [] }, '/sources', /not be empty/],
    ['an empty prefix', { sources: [''] }, '/sources/0', /must be a non-empty string/],
    ['a prefix that is none', { keys: ['a', 5] }, '/keys/1', /must be a non-empty string/],
    ['a text', { keys: 'a' }, '/keys', /array/],
    ['a prefix twice', { keys: ['a', 'a'] }, '/keys', /unique/],
    ['21 prefixes', { keys: Array.from({ length: 21 }, (_, n) => `k${n}`) }, '/keys', /20/],
    ['a prefix of the service', { sources: ['URN:sluice:api-keys/'] }, '/sources/0', /its own source/],
    ['a line break', { keys: ['a\nb'] }, '/keys/0', /control characters/],
    ['a long prefix', { sources: ['x'.repeat(513)] }, '/sources/0', /longer than 512/],
    ['an admin', { scopes: ['produce', 'admin'], keys: ['a'] }, '/scopes', /without admin/],
    ['one that only reads', { scopes: ['read'], keys: ['a'] }, '/scopes', /scope produce/],
  ])('cannot be bound to %s', async (_what, body, pointer, detail) => {
    const response = await create({ name: 'bad', scopes: ['produce'], ...body });
    expect(response.status).toBe(422);
    expect(response.body.errors).toContainEqual({ pointer, detail: expect.stringMatching(detail) });
  });
});
