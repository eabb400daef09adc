import { afterAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { Agent, request } from 'undici';
import { ADMIN_KEY } from '../support/app.ts';
import { corrupted, jsonText } from '../support/json-texts.ts';
import { sharedReplica } from '../support/shared-replica.ts';

const agent = new Agent({ connections: 32, pipelining: 1 });
afterAll(() => agent.close());
const { database, replica } = sharedReplica({ ROLES: 'api' });

interface Post {
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body: Buffer;
}

interface Taken {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

/** The statuses that the OpenAPI document declares for the two routes, without those that need another key or a broken database. */
const DECLARED = [200, 202, 400, 409, 413, 415, 422];
const PER_RUN = 70;

const text = fc.oneof(
  { weight: 6, arbitrary: fc.string({ minLength: 1, maxLength: 12 }) },
  { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 8 }) },
  { weight: 1, arbitrary: fc.constantFrom('', 'x'.repeat(199), 'x'.repeat(300), '語'.repeat(90), '\u0000') },
);
const time = fc.oneof(
  fc.date({ noInvalidDate: true, min: new Date(0), max: new Date(4e12) }).map((date) => date.toISOString()),
  fc.constantFrom(
    '0001-01-01T00:00:00+14:00',
    '9999-12-31T23:59:59-14:00',
    '2026-02-30T00:00:00Z',
    'now',
    '',
  ),
  fc.constantFrom('2026-01-31T23:59:59.999999999Z', '2026-01-31t12:00:00z', '2026-06-30T23:59:60Z'),
);
const written = (value: fc.Arbitrary<string>) => value.map((it) => JSON.stringify(it));

/** Fields that are mostly valid. */
const fields = fc.record(
  {
    id: written(text),
    key: written(text),
    occurredAt: written(time),
    dueAt: written(time),
    expiresAt: written(time),
    headers: fc.dictionary(fc.string({ maxLength: 8 }), text, { maxKeys: 3 }).map((it) => JSON.stringify(it)),
    extra: jsonText,
  },
  { requiredKeys: [] },
);

const native = fc
  .tuple(
    jsonText,
    fc.oneof({ weight: 4, arbitrary: fc.constant({}) }, fields),
    fc.constantFrom('', ' ', '\n'),
  )
  .map(([payload, more, space]) => {
    const rest = Object.entries(more).map(([name, value]) => `"${name}":${value}`);
    return `{${[`"type":"t"`, ...rest, `"payload":${space}${payload}${space}`].join()}}`;
  });
const event = fc
  .tuple(jsonText, text, text, fc.constantFrom('"data"', '"data_base64"', '"subject"', '"x"'))
  .map(([data, id, source, name]) => {
    const quoted = [JSON.stringify(id), JSON.stringify(source)];
    return `{"specversion":"1.0","id":${quoted[0]},"source":${quoted[1]},"type":"t",${name}:${data}}`;
  });
const batch = fc.array(native, { maxLength: 4 }).map((items) => `{"messages":[${items}]}`);

const latin = fc.string({ unit: fc.constantFrom(...'azAZ09 _-%"=;,.é\u00ff'), maxLength: 12 });
const oddHeaders = fc.record(
  {
    'content-type': fc.constantFrom(
      ...[
        'application/json',
        'application/json; charset=utf-8',
        'APPLICATION/JSON',
        'text/plain',
        'json',
        '*/*',
      ],
      ...[
        'application/cloudevents+json',
        'application/cloudevents-batch+json',
        'application/xml',
        'a/b; c="d',
      ],
    ),
    'content-encoding': fc.constantFrom('identity', 'gzip'),
    'idempotency-key': latin,
    'producer-id': latin,
    'producer-sequence': fc.oneof(fc.nat().map(String), latin),
    traceparent: latin,
    'ce-specversion': fc.constantFrom('1.0', '"1.0"', '0.3', ''),
    'ce-id': latin,
    'ce-source': latin,
    'ce-type': latin,
    'ce-subject': latin,
    'ce-time': latin,
    'ce-__proto__': latin,
  },
  { requiredKeys: [] },
);

const JSON_TYPE = { 'content-type': 'application/json' };
const EVENT_TYPE = { 'content-type': 'application/cloudevents+json' };
const EVENTS_TYPE = { 'content-type': 'application/cloudevents-batch+json' };

/** A binary event as in the standard, with percent-encoded attributes. */
const binary = fc
  .tuple(jsonText, text, text, fc.constantFrom('', ' ', '\n'))
  .map(([data, id, source, space]) => {
    const attributes = { 'ce-id': encodeURIComponent(id), 'ce-source': encodeURIComponent(source) };
    const headers = { 'ce-specversion': '1.0', 'ce-type': 't', ...attributes, ...JSON_TYPE };
    return toOne(`${space}${data}${space}`, headers);
  });

const toOne = (body: Buffer | string, headers: Record<string, string> = JSON_TYPE): Post => {
  return { path: '/v1/messages', headers, body: Buffer.from(body) };
};
const post: fc.Arbitrary<Post> = fc.oneof(
  { weight: 5, arbitrary: native.map((body) => toOne(body)) },
  { weight: 5, arbitrary: corrupted(native).map((body) => toOne(body)) },
  {
    weight: 2,
    arbitrary: fc
      .oneof(batch.map(Buffer.from), corrupted(batch))
      .map((body) => ({ ...toOne(body), path: '/v1/messages/batch' })),
  },
  {
    weight: 2,
    arbitrary: fc.oneof(event.map(Buffer.from), corrupted(event)).map((body) => toOne(body, EVENT_TYPE)),
  },
  {
    weight: 1,
    arbitrary: fc.array(event, { maxLength: 3 }).map((events) => toOne(`[${events}]`, EVENTS_TYPE)),
  },
  { weight: 2, arbitrary: binary },
  {
    weight: 3,
    arbitrary: fc
      .tuple(fc.oneof(native.map(Buffer.from), fc.uint8Array({ maxLength: 40 }).map(Buffer.from)), oddHeaders)
      .map(([body, headers]) => toOne(body, headers as Record<string, string>)),
  },
);

describe('a random post', () => {
  it('gets a declared status, never a 5xx, and is stored exactly if it is accepted', async () => {
    let sent = 0;
    const kept = { one: 0, batch: 0, event: 0, events: 0, binary: 0 };
    const posts = fc.array(post, { minLength: PER_RUN, maxLength: PER_RUN });
    await fc.assert(
      fc.asyncProperty(posts, async (all) => {
        const responses = await Promise.all(all.map(send));
        sent += all.length;
        for (const [index, response] of responses.entries()) expectDeclared(response, all[index]!);
        for (const form of await expectKept(all, responses)) kept[form] += 1;
      }),
      { seed: 20_260_104, numRuns: 150, interruptAfterTimeLimit: 110_000, markInterruptAsFailure: true },
    );
    expect(sent).toBeGreaterThanOrEqual(10_000);
    expect(kept.one).toBeGreaterThan(2_000);
    expect(Math.min(...Object.values(kept))).toBeGreaterThan(50);
    expect(replica.lines).toEqual([]);
  });
});

async function send({ path, headers, body }: Post): Promise<Taken> {
  const response = await request(replica.url + path, {
    method: 'POST',
    dispatcher: agent,
    headers: { authorization: `Bearer ${ADMIN_KEY}`, ...headers },
    body,
  });
  return {
    status: response.statusCode,
    type: String(response.headers['content-type']),
    text: await response.body.text(),
  };
}

function expectDeclared({ status, type, text: body }: Taken, { path, headers, body: posted }: Post): void {
  const said = `${status} ${body} to ${path} ${JSON.stringify(headers)} ${posted}`;
  if (!DECLARED.includes(status)) throw new Error(`not declared: ${said}`);
  if (status >= 400 && (type !== 'application/problem+json' || JSON.parse(body).status !== status)) {
    throw new Error(`not a problem: ${said}`);
  }
}

type Form = 'one' | 'batch' | 'event' | 'events' | 'binary';

/** A stored message, and its payload as sent. */
interface Kept {
  readonly form: Form;
  readonly id: string;
  readonly source: string;
  readonly sent: string;
  /** Undefined: the event has no data. */
  readonly payload: unknown;
}

const OWN = 'urn:sluice:api-keys/admin';

function formOf({ path, headers }: Post): Form | undefined {
  if (path !== '/v1/messages') return 'batch';
  if (headers === JSON_TYPE) return 'one';
  if (headers === EVENT_TYPE) return 'event';
  if (headers === EVENTS_TYPE) return 'events';
  return headers['ce-type'] === 't' && headers['ce-time'] === undefined ? 'binary' : undefined;
}

function keptOf(post: Post, { status, text: response }: Taken): Kept[] {
  const form = formOf(post);
  if (status !== 202 || !form) return [];
  const sent = post.body.toString();
  const body = JSON.parse(sent);
  const returned = JSON.parse(response);
  const [items, responses] = {
    one: () => [[body], [returned]],
    batch: () => [body.messages, returned.messages],
    event: () => [[body], [returned]],
    events: () => [body, returned.messages],
    binary: () => [[{ source: decodeURIComponent(post.headers['ce-source']!), data: body }], [returned]],
  }[form]() as [Record<string, unknown>[], { id: string; duplicate?: true }[]];
  return items.flatMap((item, index) => {
    const { id, duplicate } = responses[index]!;
    const payload = form === 'one' || form === 'batch' ? item.payload : (item.data ?? item.data_base64);
    return duplicate ? [] : [{ form, id, source: (item.source ?? OWN) as string, sent, payload }];
  });
}

/** Checks that the stored text is the text that was sent, in any form. Returns how many there were of each. */
async function expectKept(posts: readonly Post[], responses: readonly Taken[]): Promise<Form[]> {
  const taken = posts.flatMap((one, index) => keptOf(one, responses[index]!));
  const rows = await database.query<{ id: string; source: string; payload: string }>(
    'SELECT id, source, payload::text AS payload FROM inbox WHERE id = ANY ($1)',
    [taken.map(({ id }) => id)],
  );
  const stored = new Map(rows.map(({ id, source, payload }) => [`${source}\n${id}`, payload]));
  for (const { id, source, sent, payload } of taken) {
    const kept = stored.get(`${source}\n${id}`)!;
    if (payload !== undefined) expect(sent).toContain(kept);
    expect(canonical(JSON.parse(kept))).toBe(canonical(payload ?? null));
  }
  const own = taken.find(({ source }) => source === OWN);
  if (own) await expectRead(own.id, stored.get(`${OWN}\n${own.id}`)!);
  return taken.map(({ form }) => form);
}

async function expectRead(id: string, payload: string): Promise<void> {
  const path = `/v1/messages/${encodeURIComponent(id)}?source=urn:sluice:api-keys/admin`;
  // A client resolves `.` and `..` as path segments, even when they are percent-encoded.
  if (/^\.{1,2}$/.test(id)) return;
  const read = await replica.call('GET', path);
  expect([read.status, read.text.endsWith(`"payload":${payload}}`)]).toEqual([200, true]);
}

/** RFC 8785: members by name, numbers as JavaScript writes them. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join()}}`;
}
