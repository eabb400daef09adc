import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type ApiResponse, PRODUCE_KEY, READ_KEY, startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/until.ts';

let database: TestDatabase;
let one: TestApp;
let other: TestApp;

beforeAll(async () => {
  database = await createDatabase();
  [one, other] = await Promise.all([startApp(database), startApp(database)]);
});
afterAll(async () => {
  await Promise.all([one.close(), other.close()]);
  await database.drop();
});

type Fact = 'applied' | 'invited' | 'accepted' | 'rejected' | 'withdrawn';

/** Posts a message about a candidate, with the candidate's key unless given; returns the id. */
async function post(
  fact: Fact,
  candidateId: string,
  payload: object = {},
  more: object = {},
): Promise<string> {
  const type = `urn:ekp:events/candidate-${fact}`;
  const body = { type, key: candidateId, payload: { candidateId, ...payload }, ...more };
  const { status, body: stored } = await one.call('POST', '/v1/messages', { body });
  expect(status).toBe(202);
  return stored.id;
}

async function postAll(messages: readonly object[]): Promise<string> {
  const { status, body } = await one.call('POST', '/v1/messages/batch', { body: { messages } });
  expect(status).toBe(202);
  await finished(body.messages.map(({ id }: { id: string }) => id));
  return body.messages.at(-1).id;
}

async function finished(ids: readonly string[]): Promise<void> {
  await until(async () => {
    const sql = `SELECT 1 FROM inbox WHERE id = ANY ($1) AND status <> 'finished'`;
    return (await database.query(sql, [ids])).length === 0;
  });
}

const get = (path: string, headers: Record<string, string> = {}): Promise<ApiResponse> =>
  other.call('GET', `/v1/${path}`, { headers });

async function hold(key: string): Promise<void> {
  const body = { reason: 'to look at what waits' };
  expect((await one.call('PUT', `/v1/keys/${key}/hold`, { body })).status).toBe(200);
}

const release = (key: string) => one.call('DELETE', `/v1/keys/${key}/hold`);

const problem = ({ status, body }: ApiResponse) => [status, body.type?.split('/').at(-1)];

describe('D8 the recruitment read model', () => {
  it('shows what upstream sent, with the history and the vacancy', async () => {
    await post('applied', 'ada', { name: 'Ada', vacancyId: 'v-ada', by: 'Ada herself' });
    await post('invited', 'ada', { by: 'Grace', interviewAt: '2026-02-10T09:00:00Z' });
    const last = await post('accepted', 'ada', { by: 'Grace' }, { occurredAt: '2026-02-11T12:00:00.123Z' });

    const { body } = await get(`candidates/ada?after=${last}`);
    expect(body).toMatchObject({
      id: 'ada',
      name: 'Ada',
      vacancyId: 'v-ada',
      status: 'accepted',
      version: 3,
    });
    expect(body.interviewAt).toBe('2026-02-10T09:00:00.000Z');
    expect(body.history.map((step: { by: string; status: Fact }) => [step.by, step.status])).toEqual([
      ['Ada herself', 'applied'],
      ['Grace', 'invited'],
      ['Grace', 'accepted'],
    ]);
    expect(body.history[2]).toMatchObject({ at: '2026-02-11T12:00:00.123Z', messageId: last });
    expect((await get('vacancies/v-ada')).body).toMatchObject({
      id: 'v-ada',
      status: 'open',
      candidates: { applied: 0, invited: 0, accepted: 1, rejected: 0, withdrawn: 0 },
    });
  });

  it('applies the message of the source document, which has no key, to a known and to an unknown candidate', async () => {
    await finished([await post('applied', 'keyless', { name: 'Konrad' })]);
    for (const candidateId of ['keyless', 'stranger']) {
      const body = { type: 'urn:ekp:events/candidate-accepted', payload: { candidateId } };
      const { id } = (await one.call('POST', '/v1/messages', { body })).body;
      expect((await get(`candidates/${candidateId}?after=${id}`)).body).toMatchObject({ status: 'accepted' });
    }
  });

  it('makes a dead letter of an invalid payload, with every error', async () => {
    const id = await post('applied', 'c-bad', { name: 7, vacancyId: '' });
    const dead = await until(async () => {
      const { body } = await get(`messages/${id}`);
      return body.status === 'dead' ? body : undefined;
    });
    expect(dead).toMatchObject({ attempt: 1 });
    expect(dead.error).toMatch(/not a CandidateApplied: .*\/name must be a string/);
    expect(dead.error).toMatch(/\/vacancyId must be longer than/);
  });

  it('finds candidates by ids that need escaping, and returns 404 for impossible ones', async () => {
    const id = 'ł/ö %2F?#';
    const after = await post('applied', id, { name: 'Łucja' });
    expect((await get(`candidates/${encodeURIComponent(id)}?after=${after}`)).body.name).toBe('Łucja');
    expect(problem(await get('candidates/nobody'))).toEqual([404, 'not-found']);
    expect(problem(await get('candidates/nobody/history'))).toEqual([404, 'not-found']);
    expect(problem(await get('vacancies/nowhere'))).toEqual([404, 'not-found']);
    for (const path of ['candidates/a%00b', 'candidates/a%00b?pending=true', 'vacancies/a%00b'])
      expect((await get(path)).status).toBe(422);
  });

  it('describes its responses in the OpenAPI document', async () => {
    const { paths, components } = (await get('../openapi.json')).body;
    for (const [path, schema] of [
      ['/v1/candidates/{id}', 'CandidateWithHistory'],
      ['/v1/vacancies/{id}', 'VacancyWithCounts'],
    ] as const) {
      const response = paths[path].get.responses['200'].content['application/json'].schema;
      expect(response).toEqual({ $ref: `#/components/schemas/${schema}` });
      expect(Object.keys(components.schemas[schema].properties)).toContain('status');
    }
    const list = paths['/v1/candidates'].get;
    expect(list.responses['200'].content['application/json'].schema.properties.items.items).toEqual({
      $ref: '#/components/schemas/Candidate',
    });
    expect(list.parameters.map(({ name }: { name: string }) => name)).toEqual(
      expect.arrayContaining(['status', 'vacancyId', 'name', 'sort', 'limit', 'cursor', 'after', 'wait']),
    );
  });
});

describe('?after= reads what was written', () => {
  it('through the other replica, every time', async () => {
    for (let n = 0; n < 20; n++) {
      const id = await post('applied', `mine-${n}`, { name: `N ${n}` });
      const { status, body } = await get(`candidates/mine-${n}?after=${id}&wait=5s`);
      expect([status, body.name]).toEqual([200, `N ${n}`]);
    }
  });

  it('returns 503 read-model-behind at the end of the wait, or the result as soon as it is applied', async () => {
    await hold('late');
    const id = await post('applied', 'late', { name: 'Late' });
    const began = performance.now();
    const behind = await get(`candidates/late?after=${id}&wait=300ms`);
    expect(performance.now() - began).toBeGreaterThan(295);
    expect([...problem(behind), behind.headers.get('retry-after')]).toEqual([503, 'read-model-behind', '1']);
    expect(behind.body.detail).toContain(`/v1/messages/${id}/why`);
    expect(problem(await get(`candidates/late?after=${id}&wait=0s`))).toEqual([503, 'read-model-behind']);

    const waiting = get(`candidates?name=late&after=${id}&wait=20s`);
    await release('late');
    expect((await waiting).body.items).toMatchObject([{ id: 'late', status: 'applied' }]);
  });

  it('returns 409 for a message that will not be applied, 404 for one that was never posted', async () => {
    const dead = await post('applied', 'c-dead', { name: 7 });
    expect(problem(await get(`candidates?after=${dead}`))).toEqual([409, 'message-dead']);
    const past = '2026-01-01T00:00:00Z';
    const expired = await post('applied', 'c-expired', {}, { expiresAt: past, occurredAt: past });
    expect(problem(await get(`candidates?after=${expired}`))).toEqual([409, 'message-dead']);
    for (const after of ['never', '', '%00'])
      expect(problem(await get(`candidates?after=${after}`))).toEqual([404, 'not-found']);
  });

  it('uses the message of the caller if several sources used the id', async () => {
    await hold('theirs');
    const applied = (key: string) => ({
      body: { id: 'shared', type: 'urn:ekp:events/candidate-applied', key, payload: { candidateId: key } },
    });
    const their = { ...applied('theirs'), key: PRODUCE_KEY };
    for (const call of [their, applied('mine')])
      expect((await one.call('POST', '/v1/messages', call)).status).toBe(202);
    expect((await get('candidates/mine?after=shared')).status).toBe(200);
    const asReader = { key: READ_KEY };
    const reader = (wait: string) => other.call('GET', `/v1/candidates?after=shared&wait=${wait}`, asReader);
    expect(problem(await reader('0s'))).toEqual([503, 'read-model-behind']);
    await release('theirs');
    expect((await reader('20s')).status).toBe(200);
  });

  it.each([
    'after=x&wait=soon',
    'after=x&wait=31s',
    'after=x&wait=-1s',
    'after=x&wait=',
    'after=x&wait=1s&wait=2s',
    'after=x&after=y',
    'wait=1s',
  ])('refuses ?%s', async (query) => {
    for (const path of ['candidates', 'candidates/c-1', 'candidates/c-1/history', 'vacancies', 'vacancies/v'])
      expect([path, ...problem(await get(`${path}?${query}`))]).toEqual([path, 422, 'invalid']);
  });
});

describe('ETag', () => {
  it('returns 304 without a body until something changes', async () => {
    await finished([await post('applied', 'tagged', { name: 'Tag', vacancyId: 'v-tagged' })]);
    const paths = [
      'candidates/tagged',
      'candidates/tagged/history',
      'candidates?vacancyId=v-tagged',
      'vacancies/v-tagged',
    ];
    const tags = await Promise.all(paths.map(async (path) => (await get(path)).headers.get('etag')!));
    for (const [index, path] of paths.entries()) {
      const tag = tags[index]!;
      expect(tag).toMatch(/^"[\w-]{20,}"$/);
      for (const known of [tag, `W/${tag}`, `"other", ${tag}`, '*']) {
        const same = await get(path, { 'if-none-match': known });
        expect([path, known, same.status, same.text]).toEqual([path, known, 304, '']);
        expect(same.headers.get('etag')).toBe(tag);
      }
    }
    await finished([await post('accepted', 'tagged')]);
    for (const [index, path] of paths.entries()) {
      const changed = await get(path, { 'if-none-match': tags[index]! });
      expect([path, changed.status]).toEqual([path, 200]);
      expect(changed.headers.get('content-type')).toBe('application/json; charset=utf-8');
    }
  });
});

describe('lists', () => {
  const vacancyId = 'v-list';
  const names = ['anna', 'Anna', 'Änne', 'bob', 'B_b', 'B%b', 'B\\b', 'Zoë', 'zz', 'łucja', '', 'Anna'];

  beforeAll(async () => {
    const messages = names.map((name, n) => ({
      type: 'urn:ekp:events/candidate-applied',
      key: `list-${n}`,
      // Every third one at the same time: the id has to break the tie.
      occurredAt: `2025-01-${10 + Math.floor(n / 3)}T00:00:00.001Z`,
      payload: { candidateId: `list-${n}`, vacancyId, ...(name ? { name } : {}) },
    }));
    await postAll(messages);
    await postAll([
      { type: 'urn:ekp:events/candidate-rejected', key: 'list-3', payload: { candidateId: 'list-3' } },
    ]);
  });

  async function pages(query: string, between: () => Promise<unknown> = async () => undefined) {
    const items: { id: string; name: string; appliedAt: string }[] = [];
    let cursor = '';
    for (;;) {
      const { status, body } = await get(`candidates?vacancyId=${vacancyId}&limit=5&${query}${cursor}`);
      expect(status).toBe(200);
      items.push(...body.items);
      if (body.next === null) return items;
      expect(body.items).toHaveLength(5);
      cursor = `&cursor=${body.next}`;
      await between();
    }
  }

  const ids = (items: readonly { id: string }[]) => items.map(({ id }) => id);
  const allIds = names.map((_, n) => `list-${n}`);

  it.each(['appliedAt', 'name'])(
    'sorts by %s, both ways, each candidate on exactly one page',
    async (field) => {
      const up = await pages(`sort=${field}`);
      const down = await pages(`sort=-${field}`);
      expect(ids(up).toSorted()).toEqual(allIds.toSorted());
      expect(ids(down)).toEqual(ids(up).toReversed());
      const column = field === 'name' ? 'name' : 'applied_at';
      const sql = `SELECT id FROM candidate WHERE vacancy_id = $1 ORDER BY ${column}, id`;
      expect(ids(up)).toEqual(ids(await database.query<{ id: string }>(sql, [vacancyId])));
    },
  );

  it('keeps its pages stable while rows are written', async () => {
    let n = 0;
    const between = async () => {
      const occurredAt = n % 2 ? '2024-01-01T00:00:00Z' : '2026-01-01T00:00:00Z';
      await finished([await post('applied', `new-${n++}`, { name: 'New', vacancyId }, { occurredAt })]);
    };
    const seen = ids(await pages('sort=-appliedAt', between)).filter((id) => id.startsWith('list-'));
    expect(seen.toSorted()).toEqual(allIds.toSorted());
    expect(n).toBeGreaterThan(1);
  });

  it('filters by status, and by the start of the name, case-insensitive, with literal patterns', async () => {
    const named = async (query: string) => (await pages(`sort=appliedAt&${query}`)).map(({ name }) => name);
    expect(await named('name=AN')).toEqual(['anna', 'Anna', 'Anna']);
    expect(await named('name=%C3%A4nn')).toEqual(['Änne']);
    expect(await named('name=b_')).toEqual(['B_b']);
    expect(await named('name=b%25')).toEqual(['B%b']);
    expect(await named('name=b%5C')).toEqual(['B\\b']);
    expect(await named('status=rejected')).toEqual(['bob']);
    expect(await named('status=rejected&name=z')).toEqual([]);
  });

  it('lists vacancies with their counts', async () => {
    await postAll([
      { type: 'urn:ekp:events/vacancy-opened', key: vacancyId, payload: { vacancyId, title: 'Lister' } },
      { type: 'urn:ekp:events/vacancy-closed', key: vacancyId, payload: { vacancyId } },
    ]);
    const { items } = (await get('vacancies?status=closed&sort=-title')).body;
    expect(items).toMatchObject([{ id: vacancyId, title: 'Lister', candidates: { rejected: 1 } }]);
    expect(items[0].candidates.applied).toBeGreaterThanOrEqual(11);
    const open = (await get('vacancies?status=open&limit=1')).body;
    const next = (await get(`vacancies?status=open&limit=1&cursor=${open.next}`)).body;
    expect(open.items[0].id < next.items[0].id).toBe(true);
  });

  it('pages through a history, newest first', async () => {
    const facts: Fact[] = ['invited', 'rejected', 'withdrawn', 'accepted'];
    for (const fact of facts) await finished([await post(fact, 'list-0')]);
    const first = (await get('candidates/list-0/history?limit=3')).body;
    const second = (await get(`candidates/list-0/history?limit=3&cursor=${first.next}`)).body;
    const statuses = [...first.items, ...second.items].map(({ status }) => status);
    expect([statuses, second.next]).toEqual([
      ['accepted', 'withdrawn', 'rejected', 'invited', 'applied'],
      null,
    ]);
  });

  it('refuses unknown parameters by name', async () => {
    const { body } = await get('candidates?statis=accepted');
    expect(body.detail).toContain('did you mean "status"?');
    const cursor = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const byName = (await get('candidates?sort=name&limit=1')).body.next;
    for (const query of [
      'status=hired',
      'sort=status',
      'sort=--name',
      'sort=id;drop table candidate',
      'limit=0',
      'limit=501',
      'name=a&name=b',
      'name=%00',
      'pending=true',
      `cursor=${byName}`,
      'cursor=x',
      `cursor=${cursor(['-appliedAt', 'yesterday', 'c'])}`,
      `cursor=${cursor(['-appliedAt', '2026-01-01T00:00:00.000Z', '\u0000'])}`,
      `cursor=${cursor(['-appliedAt', '2026-01-01T00:00:00.000Z', 5])}`,
    ])
      expect([query, ...problem(await get(`candidates?${query}`))]).toEqual([query, 422, 'invalid']);
    expect(problem(await get('candidates/c?pending=maybe'))).toEqual([422, 'invalid']);
    expect(problem(await get(`candidates/c/history?cursor=${cursor(2 ** 31)}`))).toEqual([422, 'invalid']);
  });
});

describe('C7 ?pending=true', () => {
  const everything = () =>
    database.query(`
      SELECT (SELECT json_agg(candidate ORDER BY id) FROM candidate)::text AS candidates,
             (SELECT json_agg(step ORDER BY candidate_id, step) FROM candidate_step AS step)::text AS steps,
             (SELECT json_agg(inbox ORDER BY position) FROM inbox)::text AS inbox`);

  it('shows the state after the pending messages of the key, and changes nothing', async () => {
    await hold('future');
    const ids = [
      await post('applied', 'future', { name: 'Futura', vacancyId: 'v-future' }),
      await post('invited', 'future', { by: 'Grace' }),
    ];
    await until(async () => (await get(`messages/${ids[1]}`)).body.status === 'held');
    const before = await everything();

    const { status, body } = await get('candidates/future?pending=true');
    expect([status, body]).toMatchObject([200, { name: 'Futura', status: 'invited', version: 2 }]);
    expect(body.history).toMatchObject([{ messageId: ids[0] }, { messageId: ids[1], by: 'Grace' }]);
    expect(problem(await get('candidates/future'))).toEqual([404, 'not-found']);
    expect(await everything()).toEqual(before);

    await release('future');
    expect((await get(`candidates/future?after=${ids[1]}`)).body).toEqual(body);
    expect((await get('candidates/future?pending=true')).body).toEqual(body);
  });

  it('also shows a vacancy, whose messages have its id as key', async () => {
    await hold('v-next');
    for (const what of ['opened', 'closed'])
      await one.call('POST', '/v1/messages', {
        body: {
          type: `urn:ekp:events/vacancy-${what}`,
          key: 'v-next',
          payload: { vacancyId: 'v-next', title: 'Next' },
        },
      });
    const { status, body } = await get('vacancies/v-next?pending=true');
    expect([status, body]).toMatchObject([200, { id: 'v-next', title: 'Next', status: 'closed' }]);
    expect(problem(await get('vacancies/v-next?pending=false'))).toEqual([404, 'not-found']);
    expect(problem(await get('vacancies/v-next?pending=maybe'))).toEqual([422, 'invalid']);
    expect(problem(await get('vacancies?pending=true'))).toEqual([422, 'invalid']);
  });

  it('stops at a message that would fail, as the key would', async () => {
    await hold('stuck');
    await post('applied', 'stuck', { name: 'Stuck' });
    await post('invited', 'stuck', { interviewAt: 'never' });
    await post('accepted', 'stuck');
    expect((await get('candidates/stuck?pending=true')).body).toMatchObject({
      status: 'applied',
      version: 1,
    });
    expect(problem(await get('candidates/unheard-of?pending=true'))).toEqual([404, 'not-found']);
  });

  it('returns consistent results while the same messages are being applied', async () => {
    const facts = Array.from({ length: 60 }, (_, n) => (n % 2 ? 'rejected' : 'invited') as Fact);
    const busy = facts.map((fact) => ({
      type: `urn:ekp:events/candidate-${fact}`,
      key: 'busy',
      payload: { candidateId: 'busy' },
    }));
    await one.call('POST', '/v1/messages/batch', { body: { messages: busy } });
    const responses = await Promise.all(
      Array.from({ length: 12 }, () => get('candidates/busy?pending=true')),
    );
    for (const { status, body } of responses) {
      if (status === 503) continue;
      expect([status, body.version, body.status]).toEqual([200, 60, 'rejected']);
    }
    expect(responses.filter(({ status }) => status === 200).length).toBeGreaterThan(0);
  });
});

describe('vacancies that many candidates share', () => {
  it('are written by all replicas at once without a deadlock', async () => {
    const shared = await createDatabase();
    const settings = { INBOX_BATCH_MESSAGES: '100', INBOX_BATCH_LANES: '32', INBOX_WORKERS: '3' };
    const replicas = await Promise.all([startApp(shared, settings), startApp(shared, settings)]);
    const most = 1_000;
    const vacancies = 200;
    try {
      const messages = Array.from({ length: most }, (_, n) => {
        const vacancyId = `v-${(n * 7_919) % vacancies}`;
        return n % 4 === 0
          ? { type: 'urn:ekp:events/vacancy-opened', key: `o-${n}`, payload: { vacancyId, title: `T ${n}` } }
          : {
              type: 'urn:ekp:events/candidate-applied',
              key: `c-${n}`,
              payload: { candidateId: `c-${n}`, vacancyId },
            };
      });
      await replicas[0]!.call('POST', '/v1/messages/batch', { body: { messages } });
      await until(async () => {
        const done = `SELECT count(*)::integer AS done FROM inbox WHERE status = 'finished'`;
        return (await shared.query<{ done: number }>(done))[0]!.done === most;
      });
      const { items } = (await replicas[1]!.call('GET', '/v1/vacancies?limit=500')).body;
      const applied = items.map(({ candidates }: { candidates: { applied: number } }) => candidates.applied);
      const sum = applied.reduce((total: number, count: number) => total + count, 0);
      expect([items.length, sum]).toEqual([vacancies, (most * 3) / 4]);
    } finally {
      await Promise.all(replicas.map((replica) => replica.close()));
    }
    // A connection reports its statistics when it ends, at the latest.
    const counted = 'SELECT deadlocks, xact_commit FROM pg_stat_database WHERE datname = current_database()';
    const [stats] = await shared.query<{ deadlocks: string; xact_commit: string }>(counted);
    expect(Number(stats!.xact_commit)).toBeGreaterThan(20);
    expect(Number(stats!.deadlocks)).toBe(0);
    await shared.drop();
  });
});
