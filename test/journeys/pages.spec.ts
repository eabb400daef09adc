import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { PAGE_BYTES } from '../../src/http/page-bytes.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/until.ts';

/** Rows that fill a page before it reaches its limit of items. */
const COUNT = 200;
const LARGE = 16_000;
const numbers = Array.from({ length: COUNT }, (_, n) => n);
const nameOf = (n: number) => `n-${String(n).padStart(3, '0')}`;

let database: TestDatabase;
let replica: TestApp;

beforeAll(async () => {
  database = await createDatabase();
  replica = await startApp(database, { EGRESS_ALLOW: '127.0.0.0/8' });
  await database.query(
    `INSERT INTO audit (by, action, target, filter)
     SELECT 'somebody', 'listener.replay', 'n-' || lpad(n::text, 3, '0'), to_json(repeat('x', $2)) FROM generate_series(0, $1 - 1) AS n`,
    [COUNT, LARGE],
  );
});
afterAll(async () => {
  await replica.close();
  await database.drop();
});

/** Every list, filled with large rows, and what identifies a row. */
const LISTS: [path: string, fill: () => Promise<unknown>, named: (item: never) => string][] = [
  ['/v1/audit?action=listener.replay', async () => undefined, ({ target }: { target: string }) => target],
  ['/v1/messages?type=large', fillMessages, ({ id }: { id: string }) => id],
  ['/v1/messages?type=large&status=finished', async () => undefined, ({ id }: { id: string }) => id],
  ['/v1/dead-letters', fillDead, ({ id }: { id: string }) => id],
  ['/v1/listeners', fillListeners, ({ name }: { name: string }) => name],
  ['/v1/listeners/n-000/deliveries', fillDeliveries, ({ message }: { message: string }) => message],
  ['/v1/api-keys', fillKeys, ({ name }: { name: string }) => name],
  ['/v1/holds', fillHolds, ({ key }: { key: string }) => key],
  ['/v1/replays?listener=n-000', fillReplays, ({ createdBy }: { createdBy: string }) => createdBy],
  ['/v1/dead-letters/rulings', fillRulings, ({ createdBy }: { createdBy: string }) => createdBy],
  ['/v1/candidates', fillCandidates, ({ id }: { id: string }) => id],
  ['/v1/candidates/n-000/history', fillHistory, ({ note }: { note: string }) => note.slice(0, 5)],
  ['/v1/vacancies', fillVacancies, ({ id }: { id: string }) => id],
  ['/v1/topics', fillTopics, ({ name }: { name: string }) => name],
  ['/v1/groups', fillGroups, ({ name }: { name: string }) => name],
  ['/v1/schedules', fillSchedules, ({ name }: { name: string }) => name],
  ['/v1/sources/events/refused', fillRefused, ({ place }: { place: string }) => place],
];

/** Paged operations that are no lists, each with the reason. */
const NO_LISTS: Record<string, string> = {
  '/v1/history/messages': 'Lines that are sent as they are read from the blocks.',
};

describe('a page', () => {
  it.each(LISTS)(
    '%s ends at its byte limit, and the next continues: nothing is lost or repeated',
    async (path, fill, named) => {
      await fill();
      const { pages, names } = await readAll(path, named);
      expect(names.sort()).toEqual(numbers.map(nameOf));
      expect(pages.length).toBeGreaterThan(1);
      // What a list adds to its rows, such as field names, does not count.
      for (const bytes of pages) expect(bytes).toBeLessThan(PAGE_BYTES * 1.1);
    },
  );

  it('of every paged operation is tested here', async () => {
    const { body } = await replica.call('GET', '/openapi.json');
    const paged = Object.entries<{ get?: { parameters?: { name: string }[] } }>(body.paths)
      .filter(([, { get }]) => get?.parameters?.some(({ name }) => name === 'cursor'))
      .map(([path]) => path);
    const paths = LISTS.map(([path]) => path.split('?')[0]!);
    const missing = paged.filter((path) => {
      const pattern = new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`);
      return !(path in NO_LISTS) && !paths.some((one) => pattern.test(one));
    });
    expect([paged.length > 10, missing]).toEqual([true, []]);
  });

  it('has at least one item, however large it is', async () => {
    const history = '/v1/candidates/n-000/history';
    await database.query(
      `UPDATE candidate_step SET note = note || repeat('x', $1) WHERE step IN (1, 2, 200)`,
      [PAGE_BYTES],
    );
    await database.query(`UPDATE audit SET filter = to_json(repeat('x', $1)) WHERE target < 'n-003'`, [
      PAGE_BYTES + 1,
    ]);
    const steps = await readAll(history, ({ note }: { note: string }) => note.slice(0, 5));
    expect(steps.names.sort()).toEqual(numbers.map(nameOf));
    const audit = await readAll(
      '/v1/audit?action=listener.replay',
      ({ target }: { target: string }) => target,
    );
    expect(audit.names.sort()).toEqual(numbers.map(nameOf));
  });

  it('still ends at the limit of items', async () => {
    const { body } = await replica.call('GET', '/v1/audit?action=listener.replay&limit=3');
    expect(body.items).toHaveLength(3);
    const { body: one } = await replica.call('GET', '/v1/candidates?limit=3');
    expect(one.items).toHaveLength(3);
  });

  it('shows a message with as many of its deliveries as fit, and the number of all', async () => {
    await database.query(
      `INSERT INTO outbox (listener, lane, message, key, sequence, status, settled_at, lapsed_at, error)
       SELECT 1, 256, (SELECT min(position) FROM inbox), 'k', n, 'dead', now(), now(), repeat('x', 16000) FROM generate_series(1, 200) AS n`,
    );
    const [row] = await database.query<{ id: string }>('SELECT id FROM inbox ORDER BY position LIMIT 1');
    const { body, text } = await replica.call('GET', `/v1/messages/${row!.id}`);
    expect(body.deliveries.length).toBeGreaterThan(10);
    expect(body.deliveriesTotal).toBeGreaterThan(body.deliveries.length);
    expect(text.length).toBeLessThan(PAGE_BYTES * 1.1);
  });

  it('has as many groups of dead letters as fit, the largest first', async () => {
    // Not the alerts about dead letters that the service posts meanwhile.
    await database.query(
      `UPDATE inbox SET status = 'dead', lapsed_at = now(),
                        error = translate(position::text, '0123456789', 'abcdefghij') || repeat('x', $1)
       WHERE type = 'large'`,
      [LARGE],
    );
    const { body, text } = await replica.call('GET', '/v1/dead-letters/groups?stage=inbox&limit=500');
    expect(body.items.length).toBeGreaterThan(10);
    expect(body.items.length).toBeLessThan(COUNT);
    expect(text.length).toBeLessThan(PAGE_BYTES * 1.1);
  });

  it('shows a candidate with as much of the history as fits', async () => {
    const { body, text } = await replica.call('GET', '/v1/candidates/n-000');
    expect(text.length).toBeLessThan(PAGE_BYTES * 2.2);
    expect(body.history.at(-1).note).toMatch(/^n-199/);
  });
});

async function readAll(path: string, named: (item: never) => string) {
  const pages: number[] = [];
  const names: string[] = [];
  let cursor: string | null = '';
  do {
    const more: string = cursor ? `&cursor=${cursor}` : '';
    const { status, body, text } = await replica.call(
      'GET',
      `${path}${path.includes('?') ? '&' : '?'}limit=500${more}`,
    );
    expect([path, status, text.slice(0, 200)]).toEqual([path, 200, expect.any(String)]);
    if (body.items.length > 0) pages.push(text.length);
    names.push(...body.items.map(named));
    cursor = body.next;
  } while (cursor !== null);
  return { pages, names };
}

/** The keys of the environment are not in the list. */
async function fillKeys(): Promise<void> {
  await database.query(
    `INSERT INTO api_key (id, name, scopes, secret_hash, created_by, keys)
     SELECT lpad(n::text, 10, '0'), 'n-' || lpad(n::text, 3, '0'), '{read}', sha256(n::text::bytea), 'somebody', ARRAY[repeat('x', $2)]
     FROM generate_series(0, $1 - 1) AS n`,
    [COUNT, LARGE],
  );
}

async function fillMessages(): Promise<void> {
  const headers = Object.fromEntries(Array.from({ length: 8 }, (_, n) => [`h${n}`, 'v'.repeat(2_000)]));
  const messages = numbers.map((n) => ({ id: nameOf(n), type: 'large', payload: 1, headers }));
  const response = await replica.call('POST', '/v1/messages/batch', { body: { messages } });
  expect(response.status).toBe(202);
  await until(async () => {
    const rows = await database.query(`SELECT FROM inbox WHERE status = 'finished'`);
    return rows.length === COUNT;
  });
}

function fillDead(): Promise<unknown> {
  return database.query(
    `UPDATE inbox SET status = 'dead', lapsed_at = now() + position * interval '1 second', error = repeat('x', $1)
     WHERE type = 'large'`,
    [LARGE],
  );
}

async function fillListeners(): Promise<void> {
  const types = Array.from({ length: 50 }, (_, n) => `t${n}/${'x'.repeat(190)}`);
  for (const n of numbers) {
    const body = { mode: 'webhook', url: 'http://127.0.0.1:8080/', types };
    expect((await replica.call('PUT', `/v1/listeners/${nameOf(n)}`, { body })).status).toBe(201);
  }
}

function fillDeliveries(): Promise<unknown> {
  return database.query(
    `INSERT INTO outbox (listener, lane, message, key, sequence, status, settled_at, error)
     SELECT listener.number, listener.number * 256, inbox.position, inbox.key, inbox.position, 'finished', now(), repeat('x', $1)
     FROM inbox, listener WHERE listener.name = 'n-000' AND inbox.type = 'large'`,
    [LARGE],
  );
}

function fillReplays(): Promise<unknown> {
  return database.query(
    `INSERT INTO replay (listener, filter, created_by, done_at, matched)
     SELECT number, json_build_object('since', '2026-01-01T00:00:00.000Z', 'onlyFailed', false, 'keys', ARRAY[repeat('x', $2)]), 'n-' || lpad(n::text, 3, '0'), now(), 0
     FROM listener, generate_series(0, $1 - 1) AS n WHERE name = 'n-000'`,
    [COUNT, LARGE],
  );
}

function fillRulings(): Promise<unknown> {
  return database.query(
    `INSERT INTO ruling (kind, filter, created_by, done_at, matched)
     SELECT 'revive', json_build_object('error', repeat('x', $2)), 'n-' || lpad(n::text, 3, '0'), now(), 0 FROM generate_series(0, $1 - 1) AS n`,
    [COUNT, LARGE],
  );
}

function fillHolds(): Promise<unknown> {
  return database.query(
    `INSERT INTO hold (queue, key, lane, until, reason, note)
     SELECT 'inbox', 'n-' || lpad(n::text, 3, '0'), n, 'infinity', 'operator', repeat('x', $2) FROM generate_series(0, $1 - 1) AS n`,
    [COUNT, LARGE],
  );
}

function fillCandidates(): Promise<unknown> {
  return database.query(
    `INSERT INTO candidate (id, name, vacancy_id, status, applied_at, changed_at, version)
     SELECT 'n-' || lpad(n::text, 3, '0'), repeat('x', $2), 'v', 'applied', now(), now(), 1 FROM generate_series(0, $1 - 1) AS n`,
    [COUNT, LARGE],
  );
}

function fillHistory(): Promise<unknown> {
  return database.query(
    `INSERT INTO candidate_step (candidate_id, step, status, by, at, note, message_id)
     SELECT 'n-000', n + 1, 'applied', 'b', now(), 'n-' || lpad(n::text, 3, '0') || repeat('x', $2), 'm' FROM generate_series(0, $1 - 1) AS n`,
    [COUNT, LARGE],
  );
}

function fillVacancies(): Promise<unknown> {
  return database.query(
    `INSERT INTO vacancy (id, title, status)
     SELECT 'n-' || lpad(n::text, 3, '0'), repeat('x', $2), 'open' FROM generate_series(0, $1 - 1) AS n`,
    [COUNT, LARGE],
  );
}

/** The first by the API, the others as copies: defining each takes long. */
async function fillTopics(): Promise<void> {
  const types = Array.from({ length: 50 }, (_, n) => `t${n}/${'x'.repeat(190)}`);
  const response = await replica.call('PUT', '/v1/topics/n-000', { body: { types, partitions: 1 } });
  expect(response.status).toBe(201);
  await database.query(
    `INSERT INTO topic (name, revision, partitions, types, origin, created_by, updated_by)
     SELECT 'n-' || lpad(n::text, 3, '0'), revision, partitions, types, origin, created_by, updated_by
     FROM topic, generate_series(1, $1 - 1) AS n WHERE name = 'n-000'`,
    [COUNT],
  );
  await database.query(
    `INSERT INTO topic_partition (topic, partition) SELECT number, 0 FROM topic WHERE name LIKE 'n-%' ON CONFLICT DO NOTHING`,
  );
}

/** With definitions as those of later versions could be. */
async function fillGroups(): Promise<void> {
  const response = await replica.call('PUT', '/v1/groups/n-000', { body: { topics: ['n-000'] } });
  expect(response.status).toBe(201);
  await database.query(
    `UPDATE consumer_group SET definition = definition || jsonb_build_object('x', repeat('x', $1))`,
    [LARGE],
  );
  await database.query(
    `INSERT INTO consumer_group (name, definition, topics, session_ms, max_in_flight, attempts, takeover, on_expired, origin,
       created_by, updated_by)
     SELECT 'n-' || lpad(n::text, 3, '0'), definition, topics, session_ms, max_in_flight, attempts, takeover, on_expired, origin,
       created_by, updated_by
     FROM consumer_group, generate_series(1, $1 - 1) AS n WHERE name = 'n-000'`,
    [COUNT],
  );
}

function fillSchedules(): Promise<unknown> {
  return database.query(
    `INSERT INTO schedule (name, cron, timezone, type, payload, on_missed, next_at, created_by, updated_by)
     SELECT 'n-' || lpad(n::text, 3, '0'), '0 0 1 1 *', 'UTC', 't', to_json(repeat('x', $2)), 'one', '2999-01-01', 't', 't'
     FROM generate_series(0, $1 - 1) AS n`,
    [COUNT, LARGE],
  );
}

async function fillRefused(): Promise<void> {
  await database.query(`INSERT INTO source (name, kind) VALUES ('events', 'nats')`);
  await database.query(
    `INSERT INTO source_refusal (source, place, reason, headers, body)
     SELECT 'events', 'n-' || lpad(n::text, 3, '0'), 'unreadable', json_build_object('x', repeat('x', $2)), ''
     FROM generate_series(0, $1 - 1) AS n`,
    [COUNT, LARGE],
  );
}
