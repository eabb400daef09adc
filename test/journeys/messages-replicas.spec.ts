import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { ADMIN_KEY, type ApiResponse, PRODUCE_KEY } from '../support/app.ts';
import { openSession, untilBlocked } from '../support/session.ts';
import { sharedReplicas } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const { database, replicas } = sharedReplicas(2, { ROLES: 'api' });

const RUNS = { seed: 20_260_105, numRuns: 10 };
let run = 0;

/** A way to identify a message, and the same message each time it is sent. */
interface Message {
  readonly key: string;
  readonly headers: Record<string, string>;
  readonly body: unknown;
  readonly id: string;
}

const FORMS: readonly ((n: number) => Message)[] = [
  (n) => ({
    key: ADMIN_KEY,
    headers: {},
    body: { id: `i-${run}-${n}`, type: 't', payload: { n } },
    id: `i-${run}-${n}`,
  }),
  (n) => ({
    key: PRODUCE_KEY,
    headers: {},
    body: { id: `i-${run}-${n}`, type: 't', payload: { n } },
    id: `i-${run}-${n}`,
  }),
  (n) => ({
    key: ADMIN_KEY,
    headers: { 'idempotency-key': `k-${run}-${n}` },
    body: { type: 't', payload: n },
    id: `k-${run}-${n}`,
  }),
  (n) => ({ ...cloudEvent(n), key: n % 2 ? ADMIN_KEY : PRODUCE_KEY }),
];

function cloudEvent(n: number): Message {
  const headers = { 'content-type': 'application/cloudevents+json' };
  const body = { specversion: '1.0', id: `i-${run}-${n}`, source: '/orders', type: 't', data: { n } };
  return { key: ADMIN_KEY, headers, body, id: body.id };
}

/** Every message several times, in any order, each time to any replica. */
const schedule = (messages: number) =>
  fc
    .array(fc.tuple(fc.nat({ max: messages - 1 }), fc.nat({ max: 1 })), {
      minLength: messages,
      maxLength: messages * 3,
    })
    .map((again) => [
      ...again,
      ...Array.from({ length: messages }, (_, n) => [n, n % 2] as [number, number]),
    ]);

describe('two replicas on one database', () => {
  it('store every message once, sent to any of them, in any order, any number of times', async () => {
    await fc.assert(
      fc.asyncProperty(
        schedule(30),
        fc.array(fc.nat({ max: 3 }), { minLength: 30, maxLength: 30 }),
        async (sends, forms) => {
          run += 1;
          const messages = forms.map((form, n) => FORMS[form]!(n));
          const responses = await Promise.all(sends.map(([n, to]) => post(to, messages[n]!)));
          for (const n of messages.keys()) {
            const statuses = responses
              .filter((_, index) => sends[index]![0] === n)
              .map(({ status }) => status);
            expect(statuses.sort()).toEqual([...statuses.slice(1).fill(200), 202]);
          }
          responses.forEach(({ body }, index) => {
            expect(body.id).toBe(messages[sends[index]![0]]!.id);
          });
          expect(await count(`id LIKE '%-${run}-%'`)).toBe(messages.length);
        },
      ),
      RUNS,
    );
    expect(await deadlocks()).toBe(0);
  });

  it('accept exactly one content of an id, and refuse the others', async () => {
    await fc.assert(
      fc.asyncProperty(schedule(24), async (sends) => {
        run += 1;
        const contentOf = (index: number) => (index * 7) % 3;
        const responses = await Promise.all(
          sends.map(([n, to], index) => {
            const body = { id: `c-${run}-${n % 8}`, type: 't', payload: { said: contentOf(index) } };
            return post(to, { key: ADMIN_KEY, headers: {}, body, id: body.id });
          }),
        );
        const rows = await database.query<{ id: string; said: number }>(
          `SELECT id, (payload->>'said')::int AS said FROM inbox WHERE id LIKE 'c-${run}-%'`,
        );
        expect(rows).toHaveLength(8);
        for (const { id, said } of rows) {
          const own = sends.flatMap(([n], index) => (`c-${run}-${n % 8}` === id ? [index] : []));
          const winners = own
            .filter((index) => contentOf(index) === said)
            .map((index) => responses[index]!.status);
          expect(winners.sort()).toEqual([...winners.slice(1).fill(200), 202]);
          const others = own
            .filter((index) => contentOf(index) !== said)
            .map((index) => responses[index]!.status);
          expect(others).toEqual(others.map(() => 409));
        }
      }),
      RUNS,
    );
  });

  it('B4 track one producer together: each number once, each gap reported once and filled', async () => {
    await fc.assert(
      fc.asyncProperty(schedule(40), async (sends) => {
        run += 1;
        const responses = await Promise.all(
          sends.map(([n, to]) => {
            const headers = {
              'producer-id': `p-${run}-${n % 3}`,
              'producer-sequence': String(1 + Math.floor(n / 3)),
            };
            return post(to, { key: ADMIN_KEY, headers, body: { type: 't', payload: n }, id: '' });
          }),
        );
        for (const producer of [0, 1, 2]) expectFollowed(producer, sends, responses);
        const states = await database.query(
          `SELECT last::int, missing::text FROM producer WHERE id LIKE 'p-${run}-%' ORDER BY id`,
        );
        expect(states).toEqual([14, 13, 13].map((last) => ({ last, missing: '{[0,1)}' })));
        expect(await count(`producer LIKE 'p-${run}-%'`)).toBe(40);
      }),
      RUNS,
    );
  });

  it('accept batches that share messages in opposite orders, and never return a deadlock', async () => {
    const orders = fc.array(fc.shuffledSubarray([...Array(60).keys()], { minLength: 30 }), {
      minLength: 8,
      maxLength: 8,
    });
    await fc.assert(
      fc.asyncProperty(orders, async (batches) => {
        run += 1;
        const responses = await Promise.all(
          batches.map((batch, index) => {
            const messages = batch.map((n) => ({ id: `b-${run}-${n}`, type: 't', payload: n }));
            return replicas[index % 2]!.call('POST', '/v1/messages/batch', { body: { messages } });
          }),
        );
        const stored = responses.flatMap(({ status, body }) => {
          expect([status, body.messages?.length > 0]).toEqual([202, true]);
          return body.messages.filter((message: { duplicate?: true }) => !message.duplicate);
        });
        const all = new Set(batches.flat());
        expect(stored).toHaveLength(all.size);
        expect(await count(`id LIKE 'b-${run}-%'`)).toBe(all.size);
      }),
      RUNS,
    );
    expect(await deadlocks()).toBe(0);
  });

  it('return the normal result after a deadlock', async () => {
    const ids = ['d-1', 'd-2'];
    const insert = (id: string) =>
      `INSERT INTO inbox (id, source, type, key, lane, payload) VALUES ('${id}', 'urn:sluice:api-keys/admin', 't', '${id}', 0, '1')`;
    const other = await openSession(database);
    await other.query('BEGIN');
    await other.query(insert('d-2'));
    const messages = ids.map((id) => ({ id, type: 't', payload: 1 }));
    const posted = replicas[0]!.call('POST', '/v1/messages/batch', { body: { messages } });
    await untilBlocked(database);
    // Both wait for each other now. PostgreSQL ends the one that has waited for a second first: the post, unless the
    // machine is so slow that its second was over before the other began to wait.
    await other.query(insert('d-1')).catch(() => undefined);
    await other.query('ROLLBACK');
    expect((await posted).status).toBe(202);
    await other.close();
    await until(async () => (await deadlocks()) > 0);
    expect(await count(`id LIKE 'd-%'`)).toBe(2);
  });
});

async function post(to: number, { key, headers, body }: Message): Promise<ApiResponse> {
  return replicas[to]!.call('POST', '/v1/messages', { key, headers, body });
}

/** For one producer: one 202 for each number, and the reported gaps are the numbers that arrived late. */
function expectFollowed(
  producer: number,
  sends: readonly (readonly number[])[],
  responses: readonly ApiResponse[],
): void {
  const missing: number[] = [];
  const filled: number[] = [];
  const taken: number[] = [];
  sends.forEach(([n], index) => {
    const { status, body } = responses[index]!;
    if (n! % 3 !== producer) return;
    const sequence = 1 + Math.floor(n! / 3);
    expect([200, 202]).toContain(status);
    expect(body.duplicate).toBe(status === 200 ? true : undefined);
    if (status === 202) taken.push(sequence);
    if (body.gapFilled) filled.push(sequence);
    for (let at = body.gap?.from; at <= body.gap?.to; at++) missing.push(at);
  });
  const ascending = (numbers: number[]) => numbers.sort((a, b) => a - b);
  expect(ascending(filled)).toEqual(ascending(missing));
  expect(ascending(taken)).toEqual(Array.from({ length: producer === 0 ? 14 : 13 }, (_, n) => n + 1));
}

async function count(where: string): Promise<number> {
  const [row] = await database.query<{ n: number }>(`SELECT count(*)::int AS n FROM inbox WHERE ${where}`);
  return row!.n;
}

async function deadlocks(): Promise<number> {
  await database.query('SELECT pg_stat_clear_snapshot()');
  const [row] = await database.query<{ n: number }>(
    'SELECT deadlocks::int AS n FROM pg_stat_database WHERE datname = current_database()',
  );
  return row!.n;
}
