import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import type { ProblemName } from '../../src/http/problems.ts';
import { PROBLEMS } from '../../src/http/problems.ts';
import { ADMIN_KEY } from '../support/app.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const { database, replica } = sharedReplica({
  ROLES: 'api',
  REQUEST_TIMEOUT: '1s',
  BATCH_BODY_LIMIT: '3MiB',
});

const ONE = '/v1/messages';
const BATCH = '/v1/messages/batch';
const EVENT = { 'content-type': 'application/cloudevents+json' };
const EVENTS = { 'content-type': 'application/cloudevents-batch+json' };
const BINARY = { 'ce-specversion': '1.0', 'ce-id': '1', 'ce-source': '/s', 'ce-type': 't' };

/** Fits a message, but not with the index of a batch appended. */
const LONG_KEY = { 'idempotency-key': 'k'.repeat(197) };

const message = (fields: string) => `{"type":"t","payload":1,${fields}}`;
const payload = (json: string) => `{"type":"t","payload":${json}}`;
const event = (fields: string) => `{"specversion":"1.0","id":"1","source":"/s","type":"t",${fields}}`;
const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
const headers = (count: number) => `{${Array.from({ length: count }, (_, n) => `"h${n}":"v"`).join()}}`;

/** Names and values of N bytes in total. */
const headersOf = (bytes: number) => {
  const parts: Record<string, string> = {};
  for (let left = bytes, n = 10; left > 0; n++) {
    const value = 'v'.repeat(Math.min(2_048, left - 3));
    parts[`h${n}`] = value;
    left -= 3 + value.length;
  }
  return parts;
};

/** What is sent, the problem in the response, and every place in the body that it points at. */
type Case = [
  what: string,
  problem: ProblemName,
  pointers: readonly string[] | undefined,
  body: string | Uint8Array | undefined,
  headers?: Record<string, string>,
  path?: string,
];

const MALFORMED: Case[] = [
  ['an empty body', 'malformed-json', undefined, ''],
  ['an incomplete object', 'malformed-json', undefined, '{"type":"t","payload":'],
  ['two documents', 'malformed-json', undefined, '{"type":"t","payload":1}{}'],
  ['single quotes', 'malformed-json', undefined, "{'type':'t','payload':1}"],
  ['a trailing comma', 'malformed-json', undefined, '{"type":"t","payload":1,}'],
  ['a comment', 'malformed-json', undefined, '{"type":"t",/*x*/"payload":1}'],
  ['NaN', 'malformed-json', undefined, payload('NaN')],
  ['a number with a leading zero', 'malformed-json', undefined, payload('01')],
  ['a number with a leading plus', 'malformed-json', undefined, payload('+1')],
  ['a number without digits after the point', 'malformed-json', undefined, payload('1.')],
  ['a raw line feed in a string', 'malformed-json', undefined, payload('"a\nb"')],
  ['an unknown escape', 'malformed-json', undefined, payload('"\\x41"')],
  ['half a \\u escape', 'malformed-json', undefined, payload('"\\u00"')],
  ['a byte order mark', 'malformed-json', undefined, '\ufeff{"type":"t","payload":1}'],
  ['bytes that are not UTF-8', 'malformed-json', undefined, Buffer.from(payload('"é"'), 'latin1')],
  ['an encoded surrogate', 'malformed-json', undefined, bytes(payload('"_"'), [0xed, 0xa0, 0x80])],
  ['an overlong encoding', 'malformed-json', undefined, bytes(payload('"_"'), [0xc0, 0xaf])],
  ['UTF-16', 'malformed-json', undefined, Buffer.from(payload('1'), 'utf16le')],
  ['an empty batch body', 'malformed-json', undefined, '', {}, BATCH],
  ['an incomplete batch', 'malformed-json', undefined, '{"messages":[', {}, BATCH],
  ['an event that is not JSON', 'malformed-json', undefined, 'hello', EVENT],
  ['binary data that is not JSON', 'malformed-json', undefined, '{', { ...BINARY }],
];

const INEXACT: Case[] = [
  ['NUL in a value', 'invalid', ['/payload/a'], payload('{"a":"x\\u0000"}')],
  ['NUL in a key', 'invalid', ['/payload'], payload('{"\\u0000":1}')],
  ['half a surrogate pair', 'invalid', ['/payload/0'], payload('["\\ud83d"]')],
  ['the other half of a pair', 'invalid', ['/payload/1/a'], payload('[0,{"a":"\\ude00"}]')],
  ['half a pair in a key', 'invalid', ['/payload'], payload('{"\\ud83d":1}')],
  ['a reversed pair', 'invalid', ['/payload'], payload('"\\ude00\\ud83d"')],
  ['an integer beyond a double', 'invalid', ['/payload'], payload('9007199254740993')],
  ['a fraction beyond a double', 'invalid', ['/payload/x'], payload('{"x":0.1234567890123456789}')],
  ['a number larger than any double', 'invalid', ['/payload'], payload('1e400')],
  ['a number too close to zero', 'invalid', ['/payload'], payload('1e-400')],
  ['an exponent of a hundred digits', 'invalid', ['/payload'], payload(`1e${'9'.repeat(100)}`)],
  ['an exponent that makes a million zeros', 'invalid', ['/payload'], payload('0e-1000000')],
  ['duplicate keys in the payload', 'invalid', ['/payload/a'], payload('{"a":1,"a":2}')],
  ['duplicate keys, one escaped', 'invalid', ['/payload/a'], payload('{"a":1,"\\u0061":1}')],
  ['duplicate fields', 'invalid', ['/type'], '{"type":"t","payload":1,"type":"t"}'],
  ['__proto__', 'invalid', ['/payload/__proto__'], payload('{"__proto__":{"admin":true}}')],
  ['__proto__ as a field', 'invalid', ['/__proto__'], message('"__proto__":{}')],
  ['an escaped __proto__', 'invalid', ['/payload/__proto__'], payload('{"\\u005f_proto__":1}')],
  [
    'constructor.prototype',
    'invalid',
    ['/payload/constructor/prototype'],
    payload('{"constructor":{"prototype":{}}}'),
  ],
  ['a payload 65 levels deep', 'invalid', [`/payload${'/0'.repeat(64)}`], payload(nested(65))],
  ['a key with / and ~', 'invalid', ['/payload/a~1b~0c'], payload('{"a/b~c":1e999}')],
];

const FIELDS: Case[] = [
  ['a number for a message', 'invalid', [''], '1'],
  ['an array for a message', 'invalid', [''], '[]'],
  ['null', 'invalid', [''], 'null'],
  ['an empty object', 'invalid', ['/type', '/payload'], '{}'],
  ['no type', 'invalid', ['/type'], '{"payload":1}'],
  ['no payload', 'invalid', ['/payload'], '{"type":"t"}'],
  ['unknown fields, each named', 'invalid', ['/kind', '/a~1b'], message('"kind":1,"a/b":2')],
  ['a type that is not a string', 'invalid', ['/type'], '{"type":1,"payload":1}'],
  ['a type that is null', 'invalid', ['/type'], '{"type":null,"payload":1}'],
  ['an empty type', 'invalid', ['/type'], '{"type":"","payload":1}'],
  ['a type of 201 characters', 'invalid', ['/type'], `{"type":"${'t'.repeat(201)}","payload":1}`],
  ['a control character in the type', 'invalid', ['/type'], '{"type":"a\\nb","payload":1}'],
  ['an id that is not a string', 'invalid', ['/id'], message('"id":7')],
  ['an empty id', 'invalid', ['/id'], message('"id":""')],
  ['an id of 201 characters', 'invalid', ['/id'], message(`"id":"${'i'.repeat(201)}"`)],
  ['a control character in the id', 'invalid', ['/id'], message('"id":"a\\u0007"')],
  ['a key that is not a string', 'invalid', ['/key'], message('"key":{}')],
  ['an empty key', 'invalid', ['/key'], message('"key":""')],
  ['a key of 257 bytes', 'invalid', ['/key'], message(`"key":"${'k'.repeat(257)}"`)],
  ['a key of 258 bytes in 86 characters', 'invalid', ['/key'], message(`"key":"${'語'.repeat(86)}"`)],
  ['headers that are not an object', 'invalid', ['/headers'], message('"headers":["a"]')],
  ['a header that is not a string', 'invalid', ['/headers/a'], message('"headers":{"a":1}')],
  ['a header without a name', 'invalid', ['/headers/'], message('"headers":{"":"v"}')],
  ['a header with a space in its name', 'invalid', ['/headers/a b'], message('"headers":{"a b":"v"}')],
  [
    'a header name of 65 characters',
    'invalid',
    [`/headers/${'n'.repeat(65)}`],
    message(`"headers":{"${'n'.repeat(65)}":"v"}`),
  ],
  [
    'a header of 2049 characters',
    'invalid',
    ['/headers/a'],
    message(`"headers":{"a":"${'v'.repeat(2049)}"}`),
  ],
  ['a line feed in a header', 'invalid', ['/headers/a'], message('"headers":{"a":"x\\r\\ny: z"}')],
  ['51 headers', 'invalid', ['/headers'], message(`"headers":${headers(51)}`)],
  ['a time that is a number', 'invalid', ['/dueAt'], message('"dueAt":1700000000')],
  ['a day without a time', 'invalid', ['/occurredAt'], message('"occurredAt":"2026-01-31"')],
  ['a time without a zone', 'invalid', ['/occurredAt'], message('"occurredAt":"2026-01-31T12:00:00"')],
  ['the 31st of February', 'invalid', ['/occurredAt'], message('"occurredAt":"2026-02-31T12:00:00Z"')],
  ['hour 24', 'invalid', ['/occurredAt'], message('"occurredAt":"2026-01-31T24:00:00Z"')],
  ['the year 0', 'invalid', ['/occurredAt'], message('"occurredAt":"0000-01-31T12:00:00Z"')],
  ['a year 0 by its zone', 'invalid', ['/occurredAt'], message('"occurredAt":"0001-01-01T00:00:00+01:00"')],
  ['a year 10000 by its zone', 'invalid', ['/dueAt'], message('"dueAt":"9999-12-31T23:59:59-01:00"')],
  ['a zone of 25 hours', 'invalid', ['/expiresAt'], message('"expiresAt":"2026-01-31T12:00:00+25:00"')],
  ['tomorrow', 'invalid', ['/dueAt'], message('"dueAt":"tomorrow"')],
  [
    'an expiry before the due time',
    'invalid',
    ['/expiresAt'],
    message('"dueAt":"2026-01-31T12:00:00Z","expiresAt":"2026-01-31T12:00:00Z"'),
  ],
  ['many errors, all reported', 'invalid', ['/id', '/key', '/type'], '{"id":1,"key":2,"type":3,"payload":1}'],
  ['an empty Idempotency-Key', 'invalid', [''], payload('1'), { 'idempotency-key': '' }],
  ['an Idempotency-Key of 201', 'invalid', [''], payload('1'), { 'idempotency-key': 'k'.repeat(201) }],
  ['a Producer-Id alone', 'invalid', [''], payload('1'), { 'producer-id': 'p' }],
  ['a Producer-Sequence alone', 'invalid', [''], payload('1'), { 'producer-sequence': '1' }],
  ['a sequence below 0', 'invalid', [''], payload('1'), producer('-1')],
  ['a sequence with a fraction', 'invalid', [''], payload('1'), producer('1.5')],
  ['a sequence in hexadecimal', 'invalid', [''], payload('1'), producer('0x10')],
  ['a sequence beyond a double', 'invalid', [''], payload('1'), producer('9007199254740993')],
  ['a sequence of 17 digits', 'invalid', [''], payload('1'), producer('00000000000000001')],
];

const BATCHES: Case[] = [
  ['a batch that is an array', 'invalid', [''], '[]', {}, BATCH],
  ['a batch without messages', 'invalid', ['/messages'], '{}', {}, BATCH],
  ['messages that are not an array', 'invalid', ['/messages'], '{"messages":{}}', {}, BATCH],
  ['a key without room for the index', 'invalid', [''], batchOf([payload('1')]), LONG_KEY, BATCH],
  ['the same for events', 'invalid', [''], `[${event('"data":1')}]`, { ...EVENTS, ...LONG_KEY }],
  [
    'a message that is too large, and one that is too large in bytes',
    'invalid',
    ['/messages/1', '/messages/2'],
    batchOf([payload('1'), messageOf(1_048_577), payload(`"${'é'.repeat(524_277)}"`)]),
    {},
    BATCH,
  ],
  [
    'a message that is too large next to one that is not exact',
    'invalid',
    ['/messages/0', '/messages/1/payload'],
    batchOf([messageOf(1_048_577), payload('1e999')]),
    {},
    BATCH,
  ],
  ['an empty list of messages', 'invalid', ['/messages'], '{"messages":[]}', {}, BATCH],
  ['1001 messages', 'invalid', ['/messages'], batchOf(Array(1001).fill(payload('1'))), {}, BATCH],
  ['100,000 invalid items', 'invalid', ['/messages'], batchOf(Array(100_000).fill('0')), {}, BATCH],
  [
    '1001 messages, one of which cannot be stored exactly',
    'invalid',
    ['/messages'],
    batchOf([payload('1e999'), ...Array(1000).fill(payload('1'))]),
    {},
    BATCH,
  ],
  ['1001 events', 'invalid', [''], `[${Array(1001).fill(event('"data":1'))}]`, EVENTS],
  ['101 fields', 'invalid', [''], `{${Array.from({ length: 101 }, (_, n) => `"f${n}":0`)}}`],
  [
    '101 fields of one message of a batch',
    'invalid',
    ['/messages/1'],
    batchOf([payload('1'), `{${Array.from({ length: 101 }, (_, n) => `"f${n}":0`)}}`]),
    {},
    BATCH,
  ],
  [
    'more than a million values in total',
    'invalid',
    [''],
    batchOf(Array(4).fill(payload(`[${'0,'.repeat(260_000)}0]`))),
    {},
    BATCH,
  ],
  [
    'headers that are too large together',
    'invalid',
    ['/headers'],
    JSON.stringify({ type: 't', payload: 1, headers: headersOf(16_385) }),
  ],
  [
    'headers of one message of a batch that are too large together, counted as UTF-8',
    'invalid',
    ['/messages/1/headers'],
    batchOf([
      JSON.stringify({ type: 't', payload: 1, headers: headersOf(16_384) }),
      JSON.stringify({ type: 't', payload: 1, headers: { ...headersOf(14_335), x: 'é'.repeat(1_025) } }),
    ]),
    {},
    BATCH,
  ],
  [
    'attributes of an event that are too large together',
    'invalid',
    [''],
    event(JSON.stringify(headersOf(16_385)).slice(1, -1)),
    EVENT,
  ],
  [
    'the same in a batch of events',
    'invalid',
    ['/0'],
    `[${event(JSON.stringify(headersOf(16_385)).slice(1, -1))}]`,
    EVENTS,
  ],
  ['fields next to messages', 'invalid', ['/a~1b'], `{"messages":[${payload('1')}],"a/b":1}`, {}, BATCH],
  [
    'every bad item',
    'invalid',
    ['/messages/0/payload', '/messages/2', '/messages/3/id', '/messages/3/type'],
    batchOf(['{"type":"t"}', payload('1'), '7', '{"id":1,"payload":1}']),
    {},
    BATCH,
  ],
  [
    'every bad item, when several cannot be stored exactly either',
    'invalid',
    [
      '/messages/0/payload',
      '/messages/1/payload',
      '/messages/2/payload/a',
      `/messages/3/payload${'/0'.repeat(64)}`,
    ],
    batchOf([
      payload('"\\u0000"'),
      '{"type":"t"}',
      payload('{"a":1,"a":2}'),
      payload(nested(65)),
      payload('1'),
    ]),
    {},
    BATCH,
  ],
  ['duplicate lists', 'invalid', ['/messages'], `{"messages":[${payload('1')}],"messages":[]}`, {}, BATCH],
  ['a batch posted as an event', 'unsupported-media-type', undefined, '[]', EVENTS, BATCH],
];

const CLOUD_EVENTS: Case[] = [
  ['an event that is an array', 'invalid', [''], '[]', EVENT],
  ['an empty event', 'invalid', ['/specversion', '/id', '/source', '/type'], '{}', EVENT],
  ['version 0.3', 'invalid', ['/specversion'], event('"x":1').replace('1.0', '0.3'), EVENT],
  ['a version that is a number', 'invalid', ['/specversion'], event('"x":1').replace('"1.0"', '1.0'), EVENT],
  ['an event id that is a number', 'invalid', ['/id'], event('"x":1').replace('"1"', '1'), EVENT],
  ['an event without an id', 'invalid', ['/id'], event('"x":1').replace('"id":"1",', ''), EVENT],
  [
    'a source of 513 characters',
    'invalid',
    ['/source'],
    event('"x":1').replace('/s', 's'.repeat(513)),
    EVENT,
  ],
  ['an invalid time', 'invalid', ['/time'], event('"time":"noon"'), EVENT],
  ['a subject of 300 bytes', 'invalid', ['/subject'], event(`"subject":"${'s'.repeat(300)}"`), EVENT],
  ['an empty partitionkey', 'invalid', ['/partitionkey'], event('"partitionkey":""'), EVENT],
  ['an extension that is an object', 'invalid', ['/x'], event('"x":{}'), EVENT],
  ['an extension with an invalid name', 'invalid', ['/a b'], event('"a b":"1"'), EVENT],
  ['51 extensions', 'invalid', [''], event(headers(51).slice(1, -1)), EVENT],
  ['data twice', 'invalid', ['/data_base64'], event('"data":1,"data_base64":"AQ=="'), EVENT],
  ['invalid data_base64', 'invalid', ['/data_base64'], event('"data_base64":"a?=="'), EVENT],
  ['data_base64 that is a number', 'invalid', ['/data_base64'], event('"data_base64":1'), EVENT],
  ['NUL in the data of an event', 'invalid', ['/data'], event('"data":"\\u0000"'), EVENT],
  ['a batch that is one event', 'invalid', [''], event('"data":1'), EVENTS],
  ['an empty batch of events', 'invalid', [''], '[]', EVENTS],
  [
    'a bad event among good ones',
    'invalid',
    ['/1/id'],
    `[${event('"x":1')},${event('"x":1').replace('"1"', '2')}]`,
    EVENTS,
  ],
  ['a binary event without a type', 'invalid', ['/type'], '1', { ...BINARY, 'ce-type': '' }],
  ['a binary event of version 2', 'invalid', ['/specversion'], '1', { ...BINARY, 'ce-specversion': '2' }],
  [
    'an event of another source',
    'invalid',
    ['/source'],
    event('"x":1').replace('/s', 'urn:sluice:api-keys/b'),
    EVENT,
  ],
  [
    'an alert as an event',
    'invalid',
    ['/type'],
    event('"x":1').replace('"t"', '"urn:sluice:alerts/a"'),
    EVENT,
  ],
  [
    'both in a batch',
    'invalid',
    ['/0/source', '/1/type'],
    `[${event('"x":1').replace('/s', 'urn:sluice:schedules')},${event('"x":1').replace('"t"', '"urn:sluice:ping"')}]`,
    EVENTS,
  ],
  [
    'a binary event by the service',
    'invalid',
    ['/source'],
    '1',
    { ...BINARY, 'ce-source': '%55RN:Sluice:alerts' },
  ],
  ['an alert', 'invalid', ['/type'], '{"type":"urn:sluice:alerts/dead-letters","payload":1}'],
  ['an event header that is not UTF-8', 'invalid', ['/subject'], '1', { ...BINARY, 'ce-subject': '50%FF' }],
  ['an event header in Latin-1', 'invalid', ['/subject'], '1', { ...BINARY, 'ce-subject': 'Zo\u00eb' }],
  ['an Idempotency-Key in Latin-1', 'invalid', [''], payload('1'), { 'idempotency-key': 'Zo\u00eb' }],
  ['a Producer-Id in Latin-1', 'invalid', [''], payload('1'), { ...producer('1'), 'producer-id': '\u00eb' }],
  ['an event header with NUL', 'invalid', ['/x'], '1', { ...BINARY, 'ce-x': 'a%00b' }],
  ['ce-__proto__', 'invalid', ['/__proto__'], '1', { ...BINARY, 'ce-__proto__': 'x' }],
  ['inexact data in binary mode', 'invalid', ['/a'], '{"a":1e999}', BINARY],
  ['data too deep in binary mode', 'invalid', ['/0'.repeat(64)], nested(65), BINARY],
];

const TRANSPORT: Case[] = [
  ['no body and no type', 'unsupported-media-type', undefined, undefined],
  ['plain text', 'unsupported-media-type', undefined, 'hello', { 'content-type': 'text/plain' }],
  [
    'a form',
    'unsupported-media-type',
    undefined,
    'a=1',
    { 'content-type': 'application/x-www-form-urlencoded' },
  ],
  ['an invalid content type', 'unsupported-media-type', undefined, '{}', { 'content-type': 'json' }],
  [
    'two types',
    'unsupported-media-type',
    undefined,
    '{}',
    { 'content-type': 'application/json, text/plain' },
  ],
  ['a compressed body', 'unsupported-media-type', undefined, payload('1'), { 'content-encoding': 'gzip' }],
  ['a compressed event', 'unsupported-media-type', undefined, '1', { ...BINARY, 'content-encoding': 'br' }],
  ['1 MiB and a byte', 'too-large', undefined, messageOf(1_048_577)],
  ['a batch beyond its limit', 'too-large', undefined, ' '.repeat(3_145_729), {}, BATCH],
];

describe('an invalid post', () => {
  const cases = [...MALFORMED, ...INEXACT, ...FIELDS, ...BATCHES, ...CLOUD_EVENTS, ...TRANSPORT];

  it.each(cases.map((one) => ({ what: one[0], problem: one[1], one })))(
    'with $what is refused with $problem',
    async ({ problem, one: [, , pointers, body, headers = {}, path = ONE] }) => {
      const response = await replica.call('POST', path, { body, headers });
      expect([response.status, response.body?.type]).toEqual([
        PROBLEMS[problem].status,
        `urn:sluice:problems/${problem}`,
      ]);
      expect(response.headers.get('content-type')).toMatch(/^application\/problem\+json/);
      expect(response.body.errors?.map((error: { pointer: string }) => error.pointer)).toEqual(pointers);
    },
  );

  it('stores nothing, and logs nothing', async () => {
    expect(cases.length).toBeGreaterThanOrEqual(60);
    expect(await database.query('SELECT * FROM inbox')).toEqual([]);
    expect(replica.lines).toEqual([]);
  });

  it('gets at most 20 errors per message, also for each message of a batch', async () => {
    const odd = `{${Array.from({ length: 100 }, (_, n) => `"f${n}":0`).join()}}`;
    expect((await replica.call('POST', ONE, { body: odd })).body.errors).toHaveLength(20);
    const { body } = await replica.call('POST', BATCH, { body: batchOf([odd, odd, '{}']) });
    expect(body.errors).toHaveLength(20 + 20 + 2);
  });

  it('is accepted exactly at every limit', async () => {
    const edge = {
      id: 'i'.repeat(200),
      type: '語'.repeat(200),
      key: 'é'.repeat(128),
      occurredAt: '0001-01-01T00:00:00Z',
      dueAt: '2026-01-31T12:00:00.123456789-23:59',
      expiresAt: '9999-12-31T23:59:59.999999999Z',
      headers: headersOf(16_384),
      payload: JSON.parse(nested(64)),
    };
    const whole = await replica.call('POST', ONE, { body: edge, headers: producer('9007199254739991') });
    expect([whole.status, whole.body.status]).toEqual([202, 'pending']);
    expect((await replica.call('POST', ONE, { body: messageOf(1_048_576) })).status).toBe(202);
    const key = { 'idempotency-key': 'k'.repeat(200) };
    expect((await replica.call('POST', ONE, { body: payload('1'), headers: key })).status).toBe(202);
    const largest = batchOf([messageOf(1_048_576), payload('1')]);
    expect((await replica.call('POST', BATCH, { body: largest })).status).toBe(202);
    const keyed = { 'idempotency-key': 'k'.repeat(196), ...producer('0') };
    const body = batchOf(Array(1_000).fill(payload('1')));
    expect((await replica.call('POST', BATCH, { body, headers: keyed })).body.messages).toHaveLength(1_000);
    const events = [event('"time":"2026-01-31T12:00:00Z"'), event('"x":1').replace('"1"', '"2"')];
    expect((await replica.call('POST', ONE, { body: `[${events}]`, headers: EVENTS })).status).toBe(202);
  });
});

describe('a post that does not end', () => {
  const head = (length: string) =>
    `POST ${ONE} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${ADMIN_KEY}\r\ncontent-type: application/json\r\n${length}\r\n\r\n`;

  it('is cut off after REQUEST_TIMEOUT, whichever part of it is slow or missing', async () => {
    const chunked = `${head('transfer-encoding: chunked')}1\r\n{\r\n`;
    const cases: [begin: string, drop: string][] = [
      ['POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-slow: ', 'x'],
      ['POST /v1/messages HTTP/1.1\r\n', ''],
      [head('content-length: 100000'), ' '],
      [`${head('content-length: 24')}{"type":"t"`, ''],
      [chunked, '1\r\n \r\n'],
      [chunked, ''],
    ];
    const cut = async (begin: string, drop: string) => {
      const { client, server } = await open(begin);
      const drip = setInterval(() => drop && client.write(drop), 100);
      const text = await textOf(client).finally(() => clearInterval(drip));
      expect(text).toMatch(/^HTTP\/1\.1 408 .*urn:sluice:problems\/request-timeout/s);
      // The caller keeps its side open; the service keeps nothing for it.
      await until(() => server.destroyed);
      client.destroy();
    };
    await Promise.all(cases.map(([begin, drop]) => cut(begin, drop)));
  });

  it('is cut off at the limit when it is a chunked body of 1 GB, and is not read to its end', async () => {
    const { client, server } = await open(head('transfer-encoding: chunked'));
    const chunk = Buffer.from(`10000\r\n${'x'.repeat(65_536)}\r\n`);
    let sent = 0;
    const pour = () => {
      while (sent < 1_000_000_000 && !client.destroyed) {
        sent += chunk.length;
        if (!client.write(chunk)) return;
      }
    };
    client.on('drain', pour);
    pour();
    const text = await textOf(client);
    if (text) expect(text).toMatch(/^HTTP\/1\.1 413 .*urn:sluice:problems\/too-large/s);
    await until(() => server.destroyed);
    expect(server.bytesRead).toBeGreaterThan(1_048_576);
    expect(server.bytesRead).toBeLessThan(4 * 1_048_576);
    expect(sent).toBeLessThan(50_000_000);
  });

  /** A connection, from both sides. */
  async function open(begin: string): Promise<{ client: Socket; server: Socket }> {
    const http = replica.app.nest.getHttpServer();
    const accepted = new Map<number, Socket>();
    http.on('connection', (socket: Socket) => accepted.set(socket.remotePort!, socket));
    const { port } = http.address() as AddressInfo;
    const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    client.on('error', () => undefined);
    client.write(begin);
    await once(client, 'connect');
    const from = client.localPort!;
    return { client, server: (await until(() => accepted.get(from)))! };
  }

  /** What arrives until the other side ends or closes the connection. */
  async function textOf(client: Socket): Promise<string> {
    let text = '';
    client.on('data', (chunk) => {
      text += chunk;
    });
    await Promise.race([once(client, 'end'), once(client, 'close')]).catch(() => undefined);
    return text;
  }
});

/** A message of N bytes. */
function messageOf(size: number): string {
  return payload(`"${'x'.repeat(size - payload('""').length)}"`);
}

function batchOf(messages: readonly string[]): string {
  return `{"messages":[${messages.join()}]}`;
}

function producer(sequence: string): Record<string, string> {
  return { 'producer-id': 'p', 'producer-sequence': sequence };
}

/** The text with raw bytes instead of `_`. */
function bytes(text: string, raw: readonly number[]): Uint8Array {
  const [before = '', after = ''] = text.split('_');
  return Buffer.concat([Buffer.from(before), Buffer.from(raw), Buffer.from(after)]);
}
