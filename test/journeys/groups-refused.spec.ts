import { beforeAll, describe, expect, it } from '@jest/globals';
import { CONSUME_KEY, PRODUCE_KEY, READ_KEY } from '../support/app.ts';
import { sharedReplica } from '../support/shared-replica.ts';

const { replica, database } = sharedReplica();
const NOBODY = '00000000-0000-4000-8000-000000000000';
let member: string;

const call = (method: string, path: string, body?: unknown, key?: string) =>
  replica.call(method, path, { body, ...(key ? { key } : {}) });

async function problem(method: string, path: string, body?: unknown): Promise<[number, string, string[]]> {
  const { status, body: response } = await call(method, path, body);
  const pointers = (response?.errors ?? []).map(({ pointer }: { pointer: string }) => pointer);
  return [status, String(response?.type).replace('urn:sluice:problems/', ''), pointers];
}

beforeAll(async () => {
  await call('PUT', '/v1/topics/t', { partitions: 2 });
  await call('PUT', '/v1/groups/g', { topics: ['t'] });
  member = (await call('POST', '/v1/groups/g/members', {})).body.member;
});

describe('a topic', () => {
  it.each<[string, unknown, string]>([
    ['no partitions', { partitions: 0 }, '/partitions'],
    ['too many partitions', { partitions: 257 }, '/partitions'],
    ['half a partition', { partitions: 1.5 }, '/partitions'],
    ['no types', { types: [] }, '/types'],
    ['a type that is none', { types: [1] }, '/types/0'],
    ['a retention of a second', { retention: '1s' }, '/retention'],
    ['a retention that is none', { retention: 7 }, '/retention'],
    ['an unknown field', { partition: 3 }, '/partition'],
  ])('with %s is refused', async (_what, body, pointer) => {
    expect(await problem('PUT', '/v1/topics/bad', body)).toEqual([422, 'invalid', [pointer]]);
    expect((await call('GET', '/v1/topics/bad')).status).toBe(404);
  });

  it('keeps its number of partitions', async () => {
    expect(await problem('PUT', '/v1/topics/t', { partitions: 4 })).toEqual([
      409,
      'partitions-fixed',
      ['/partitions'],
    ]);
    expect((await call('PUT', '/v1/topics/t', { retention: '2d' })).body.retention).toBe('2d');
  });

  it.each(['g.dead', 'x.revived', 'a/b', '.x', 'x'.repeat(64)])('cannot have the name %s', async (name) => {
    const [status] = await problem('PUT', `/v1/topics/${encodeURIComponent(name)}`, {});
    expect(status).toBe(422);
  });

  it.each([
    ['partition=2', 422],
    ['partition=-1', 422],
    ['partition=x', 422],
    ['from=-1', 422],
    ['from=1.5', 422],
    ['limit=501', 422],
    ['limit=0', 422],
    ['offset=1', 422],
    ['from=9007199254740991', 200],
  ])('is browsed with ?%s: %d', async (query, status) => {
    expect((await call('GET', `/v1/topics/t/messages?${query}`)).status).toBe(status);
  });

  it('takes only messages of its types', async () => {
    const post = (body: unknown, path = 't') => problem('POST', `/v1/topics/${path}/messages`, body);
    expect(await post({ type: 'other', payload: 1 })).toEqual([422, 'invalid', ['/type']]);
    expect(await post({ payload: 1 }, 'nothing')).toEqual([404, 'not-found', []]);
    expect(
      await problem('POST', '/v1/topics/t/messages/batch', {
        messages: [{ payload: 1 }, { type: 'x', payload: 1 }],
      }),
    ).toEqual([422, 'invalid', ['/messages/1/type']]);
  });
});

describe('a group', () => {
  it.each<[string, object, string]>([
    ['no topics', {}, '/topics'],
    ['an empty list of topics', { topics: [] }, '/topics'],
    ['a topic that does not exist', { topics: ['t', 'nothing'] }, '/topics/1'],
    ['a topic twice', { topics: ['t', 't'] }, '/topics/1'],
    ['a topic that is no name', { topics: ['a\u0000b'] }, '/topics/0'],
    ['an unknown start', { topics: ['t'], start: 'beginning' }, '/start'],
    ['a start at no time', { topics: ['t'], start: { time: 'yesterday' } }, '/start'],
    ['a session of nothing', { topics: ['t'], session: '0s' }, '/session'],
    ['a session of a day', { topics: ['t'], session: '1d' }, '/session'],
    ['nothing in flight', { topics: ['t'], maxInFlight: 0 }, '/maxInFlight'],
    ['no attempts', { topics: ['t'], attempts: 0 }, '/attempts'],
    ['an unknown takeover', { topics: ['t'], takeover: 'steal' }, '/takeover'],
    ['an unknown onExpired', { topics: ['t'], onExpired: 'panic' }, '/onExpired'],
  ])('with %s is refused', async (_what, body, pointer) => {
    expect(await problem('PUT', '/v1/groups/bad', body)).toEqual([422, 'invalid', [pointer]]);
    expect((await call('GET', '/v1/groups/bad')).status).toBe(404);
  });

  it('has a name that leaves room for its topics', async () => {
    expect((await problem('PUT', `/v1/groups/${'x'.repeat(56)}`, { topics: ['t'] }))[0]).toBe(422);
    expect((await call('PUT', `/v1/groups/${'x'.repeat(55)}`, { topics: ['t'] })).status).toBe(201);
  });

  it.each<[string, object, string]>([
    ['max 1e9', { max: 1e9 }, '/max'],
    ['a negative max', { max: -1 }, '/max'],
    ['half a message', { max: 0.5 }, '/max'],
    ['maxBytes 0', { maxBytes: 0 }, '/maxBytes'],
    ['a wait of a minute', { wait: '60s' }, '/wait'],
    ['a wait that is a number', { wait: 20 }, '/wait'],
    ['a commit that is no list', { commit: {} }, '/commit'],
    ['too many commits', { commit: Array(501).fill({}) }, '/commit'],
    ['an unknown field', { limit: 3 }, '/limit'],
  ])('refuses a poll with %s', async (_what, more, pointer) => {
    const [status, type, pointers] = await problem('POST', '/v1/groups/g/poll', { member, ...more });
    expect([status, type, pointers[0]]).toEqual([422, 'invalid', pointer]);
  });

  it.each<[string, object, string]>([
    ['a negative offset', { offset: -1 }, '/offsets/0/offset'],
    ['a fractional offset', { offset: 1.5 }, '/offsets/0/offset'],
    ['an offset that is text', { offset: '1' }, '/offsets/0/offset'],
    ['no fence', { fence: undefined }, '/offsets/0/fence'],
    ['partition 256', { partition: 256 }, '/offsets/0/partition'],
    ['no topic', { topic: '' }, '/offsets/0/topic'],
    [
      'a rejection beyond its offset',
      { rejected: [{ offset: 2, reason: 'x' }] },
      '/offsets/0/rejected/0/offset',
    ],
    ['a rejection without a reason', { rejected: [{ offset: 1 }] }, '/offsets/0/rejected/0/reason'],
    ['a reason with NUL', { rejected: [{ offset: 1, reason: '\u0000' }] }, '/offsets/0/rejected/0/reason'],
  ])('refuses a commit with %s', async (_what, more, pointer) => {
    const item = { topic: 't', partition: 0, fence: 1, offset: 1, ...more };
    const [status, , pointers] = await problem('POST', '/v1/groups/g/commit', { member, offsets: [item] });
    expect([status, pointers]).toEqual([422, [pointer]]);
  });

  it('refuses a partition twice in one commit', async () => {
    const item = { topic: 't', partition: 0, fence: 1, offset: 1 };
    expect(await problem('POST', '/v1/groups/g/commit', { member, offsets: [item, item] })).toEqual([
      422,
      'invalid',
      ['/offsets/1'],
    ]);
  });

  it('fences commits of topics and partitions that are not there', async () => {
    const offsets = [
      { topic: 'nothing', partition: 0, fence: 1, offset: 1 },
      { topic: 'a\u0000b', partition: 0, fence: 1, offset: 1 },
      { topic: 't', partition: 200, fence: 1, offset: 1 },
    ];
    const { status, body } = await call('POST', '/v1/groups/g/commit', {
      member,
      offsets: [offsets[0], offsets[2]],
    });
    expect([status, body.offsets.map(({ outcome }: { outcome: string }) => outcome)]).toEqual([
      200,
      ['fenced', 'fenced'],
    ]);
    expect((await problem('POST', '/v1/groups/g/commit', { member, offsets: [offsets[1]] }))[0]).toBe(422);
  });

  it.each(['', 'x', NOBODY, '../..'])('does not know the member %j', async (id) => {
    const [status, type] = await problem('POST', '/v1/groups/g/poll', { member: id });
    expect([status, type]).toEqual(id === '' ? [422, 'invalid'] : [404, 'member-unknown']);
    const left = await problem('DELETE', `/v1/groups/g/members/${encodeURIComponent(id || 'x')}`);
    expect([404, 422]).toContain(left[0]);
  });

  it.each(['nothing', 'a\u0000b'])('is not there under the name %j', async (name) => {
    const path = `/v1/groups/${encodeURIComponent(name)}`;
    const offsets = [{ topic: 't', partition: 0, fence: 1, offset: 1 }];
    const all = [
      problem('GET', path),
      problem('DELETE', path),
      problem('POST', `${path}/members`, {}),
      problem('DELETE', `${path}/members/${NOBODY}`),
      problem('POST', `${path}/poll`, { member }),
      problem('POST', `${path}/commit`, { member, offsets }),
      problem('POST', `${path}/seek`, { to: 'earliest' }),
    ];
    for (const [status, type] of await Promise.all(all)) expect([404, 'not-found']).toEqual([status, type]);
  });

  it.each<[string, object, string]>([
    ['no target', {}, '/to'],
    ['an unknown target', { to: 'middle' }, '/to'],
    ['a negative offset', { to: { offset: -1 } }, '/to'],
    ['a fractional offset', { to: { offset: 0.5 } }, '/to'],
    ['two targets', { to: { offset: 1, time: '2026-01-01T00:00:00Z' } }, '/to'],
    ['no time', { to: { time: '2026-13-01T00:00:00Z' } }, '/to'],
  ])('refuses a seek with %s', async (_what, body, pointer) => {
    expect(await problem('POST', '/v1/groups/g/seek', { dryRun: true, ...body })).toEqual([
      422,
      'invalid',
      [pointer],
    ]);
  });

  it('refuses a seek in what it does not read', async () => {
    for (const more of [{ topic: 'nothing' }, { partition: 9 }])
      expect((await problem('POST', '/v1/groups/g/seek', { to: 'latest', dryRun: true, ...more }))[0]).toBe(
        404,
      );
  });

  it('has at most 1,000 members, however often somebody joins', async () => {
    await call('PUT', '/v1/groups/crowd', { topics: ['t'] });
    await database.query(`INSERT INTO group_member (group_number) SELECT number FROM consumer_group, generate_series(1, 995)
                          WHERE name = 'crowd'`);
    const join = async () => (await call('POST', '/v1/groups/crowd/members', {}, CONSUME_KEY)).status;
    const results = await Promise.all(Array.from({ length: 8 }, join));
    expect(results.sort()).toEqual([201, 201, 201, 201, 201, 409, 409, 409]);
    expect((await call('GET', '/v1/groups/crowd')).body.members).toHaveLength(1_000);
  });
});

describe('what belongs to a group', () => {
  it('is not deleted without it, and its dead letters stay readable', async () => {
    await call('PUT', '/v1/groups/mine', { topics: ['t'] });
    expect((await problem('DELETE', '/v1/topics/mine.dead'))[0]).toBe(409);
    expect((await call('DELETE', '/v1/groups/mine')).status).toBe(204);
    expect((await call('GET', '/v1/topics/mine.dead/messages')).status).toBe(200);
    expect((await call('DELETE', '/v1/topics/mine.dead')).status).toBe(204);
  });

  it.each([PRODUCE_KEY, READ_KEY])('is not for the api key %s', async (key) => {
    for (const path of ['members', 'poll', 'commit'])
      expect((await call('POST', `/v1/groups/g/${path}`, { member }, key)).status).toBe(403);
    expect((await call('POST', '/v1/groups/g/seek', { to: 'latest' }, CONSUME_KEY)).status).toBe(403);
    expect((await call('PUT', '/v1/groups/g', { topics: ['t'] }, CONSUME_KEY)).status).toBe(403);
  });
});
