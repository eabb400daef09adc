import { beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import pg from 'pg';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import { recruitment } from '../../src/read-models/recruitment/recruitment.module.ts';
import { SWITCH_GUARDS } from '../../src/rebuild/switch.ts';
import { oneTableReadModel } from '../support/one-table-read-model.ts';
import { sharedReplicas } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';
import { untilSettled } from '../support/until-settled.ts';

const APPLIED = 'urn:ekp:events/candidate-applied';
const INVITED = 'urn:ekp:events/candidate-invited';

/** The first attempt of a message with `fails` fails; while `broken`, every message with `breaks` does. */
let broken = false;
/** Every message writes to the living table, whatever the search_path is. */
let namesSchema = false;

/** A hash chain: it shows every message that is missing, applied twice or in another order. */
@Denormalizer({ types: ['link'] })
@Injectable()
class Links {
  async apply(
    { id, key, payload, attempt }: Message<{ fails?: boolean; breaks?: boolean; waits?: boolean }>,
    tx: ReadModelTransaction,
  ) {
    if (namesSchema) await tx.query('UPDATE tested.chain SET hash = hash');
    if (payload.fails && attempt === 1) throw new Error('not at the first attempt');
    if (payload.breaks && broken) throw new Error('broken as planned');
    await tx.query(
      `INSERT INTO chain AS known (key, hash) VALUES ($1, md5($2))
       ON CONFLICT (key) DO UPDATE SET hash = md5(known.hash || $2)`,
      [key, id],
    );
    if (payload.waits) await tx.query('SELECT pg_advisory_xact_lock(4711)');
    if (payload.breaks) await tx.send({ type: 'echo', payload: { of: id } });
  }
}
const LINKS = oneTableReadModel('chain (key text PRIMARY KEY, hash text NOT NULL)', [Links]);
const SETTINGS = { INBOX_RETRY_SCHEDULE: '1ms', INBOX_POLL: '20ms' };

const { database, replicas } = sharedReplicas(2, SETTINGS, [recruitment, LINKS]);
const app = () => replicas[0]!;
beforeEach(() => {
  broken = false;
  namesSchema = false;
});

let posted = 0;
async function post(type: string, key: string, payload: object): Promise<string> {
  const id = `m-${++posted}`;
  const { status } = await app().call('POST', '/v1/messages', { body: { id, type, key, payload } });
  expect(status).toBe(202);
  return id;
}

const settled = () => untilSettled(database);

const rebuildOf = async (model: string) => (await app().call('GET', `/v1/read-models/${model}`)).body.rebuild;

async function reached(model: string, status: string) {
  await until(async () => {
    const { status: now, failure } = await rebuildOf(model);
    if (now === 'failed' && status !== 'failed') throw new Error(JSON.stringify(failure));
    return now === status;
  });
  return rebuildOf(model);
}

async function act(model: string, action: string, body?: object) {
  const reply = await app().call('POST', `/v1/read-models/${model}/rebuild${action}`, body ? { body } : {});
  return { status: reply.status, detail: reply.body.detail };
}

const chains = (schema: string) => database.query(`SELECT key, hash FROM ${schema}.chain ORDER BY key`);

describe('a rebuild', () => {
  it('compares with the living model, switches, is rolled back, and its schema is dropped', async () => {
    for (let n = 0; n < 40; n++) await post(APPLIED, `c-${n}`, { candidateId: `c-${n}`, name: `Ada ${n}` });
    await settled();
    await database.query(`UPDATE recruitment.candidate SET name = 'wrong' WHERE id = 'c-1'`);
    await database.query(`DELETE FROM recruitment.candidate WHERE id = 'c-2'`);
    await database.query(`INSERT INTO recruitment.vacancy (id) VALUES ('v-1')`);

    expect(await act('recruitment', '', { dryRun: true })).toMatchObject({ status: 202 });
    const { diff, total, done } = await reached('recruitment', 'ready');
    expect(diff.tables).toEqual([
      { table: 'candidate', onlyOld: 0, onlyNew: 1, different: 1 },
      { table: 'candidate_step', onlyOld: 0, onlyNew: 0, different: 0 },
      { table: 'vacancy', onlyOld: 1, onlyNew: 0, different: 0 },
    ]);
    const { old, new: next } = diff.rows.find(({ kind }: { kind: string }) => kind === 'different');
    expect([old.name, next.name, total, done]).toEqual(['wrong', 'Ada 1', 40, 40]);
    expect((await app().call('GET', '/v1/candidates/c-1')).body.name).toBe('wrong');

    await post(INVITED, 'c-3', { candidateId: 'c-3' });
    await settled();
    await act('recruitment', '/switch');
    const { pauseMs } = await reached('recruitment', 'switched');
    expect(pauseMs).toBeGreaterThan(0);
    expect((await app().call('GET', '/v1/candidates/c-1')).body.name).toBe('Ada 1');
    expect((await app().call('GET', '/v1/candidates/c-3')).body.status).toBe('invited');

    await post(INVITED, 'c-4', { candidateId: 'c-4' });
    await settled();
    await act('recruitment', '/rollback');
    await reached('recruitment', 'rolled-back');
    expect((await app().call('GET', '/v1/candidates/c-1')).body.name).toBe('wrong');
    expect((await app().call('GET', '/v1/candidates/c-4')).body.status).toBe('invited');

    await act('recruitment', '/switch');
    await reached('recruitment', 'switched');
    expect((await app().call('GET', '/v1/candidates/c-4')).body).toMatchObject({
      name: 'Ada 4',
      status: 'invited',
    });
    expect(await act('recruitment', '/drop')).toMatchObject({ status: 200 });
    const schemas = await database.query(
      `SELECT nspname FROM pg_namespace WHERE nspname LIKE 'recruitment%'`,
    );
    expect(schemas).toEqual([{ nspname: 'recruitment' }]);
  });

  it('applies messages in the order in which they were applied, not posted, and sends nothing again', async () => {
    await app().call('PUT', '/v1/keys/k-held/hold', { body: { reason: 'later' } });
    for (let n = 0; n < 30; n++)
      await post('link', `k-${n % 3}`, { fails: n % 7 === 0, breaks: n % 10 === 0 });
    await post('link', 'k-held', {});
    await until(async () => (await chains('tested')).length === 3);
    await act('tested', '', { dryRun: true });
    await reached('tested', 'ready');
    await app().call('DELETE', '/v1/keys/k-held/hold');
    await settled();
    const [before] = await database.query('SELECT count(*) AS n FROM inbox');
    await act('tested', '/switch');
    await reached('tested', 'switched');

    expect(await chains('tested')).toHaveLength(4);
    expect(await chains('tested')).toEqual(await chains('tested__previous'));
    expect(await database.query('SELECT count(*) AS n FROM inbox')).toEqual([before]);
    await act('tested', '/drop');
  });

  it('stops at a message that fails; an operator leaves it out, or cancels; the living model is untouched', async () => {
    const living = await chains('tested');
    broken = true;
    await act('tested', '', { dryRun: true });
    const { failure } = await reached('tested', 'failed');
    expect(failure).toMatchObject({ type: 'link', error: 'Error: broken as planned' });
    expect(failure.id).toMatch(/^m-\d+$/);
    expect(await act('tested', '/skip', { reason: 'only a test' })).toMatchObject({ status: 200 });
    const next = await reached('tested', 'failed');
    expect(next.failure.id).not.toBe(failure.id);
    expect(next.leftOut).toBe(1);
    broken = false;
    await act('tested', '/skip', { reason: 'only a test' });
    expect((await reached('tested', 'ready')).diff.tables[0].different).toBeGreaterThan(0);
    expect(await act('tested', '/cancel')).toMatchObject({ status: 200 });

    expect(await chains('tested')).toEqual(living);
    const { body } = await app().call('GET', '/v1/audit?action=read-model.skip');
    expect(body.items[0]).toMatchObject({ by: 'admin', reason: 'only a test' });
  });

  it('stops at a denormalizer whose SQL names the living schema, and nothing of it is committed', async () => {
    namesSchema = true;
    const living = await chains('tested');
    await act('tested', '', {});
    const { failure } = await reached('tested', 'failed');
    expect(failure.error).toBe('Error: a denormalizer wrote to tested.chain: its SQL must not name a schema');
    expect(await chains('tested')).toEqual(living);
    await act('tested', '/cancel');
  });

  it('leaves out what fails if that was asked for, and switches when an operator accepts it', async () => {
    broken = true;
    await act('tested', '', { recordFailures: true });
    await until(
      async () =>
        (await rebuildOf('tested')).waitsFor === '3 messages failed and were left out; "switch" accepts that',
    );
    expect(await rebuildOf('tested')).toMatchObject({ status: 'ready', leftOut: 3 });
    await act('tested', '/switch');
    await reached('tested', 'switched');
    await act('tested', '/rollback');
    await reached('tested', 'rolled-back');
    await act('tested', '/drop');
  });

  it.each([
    ['waits for a batch in flight, and loses nothing of it', true],
    ['without the lock of all lanes would lose it (control)', false],
  ])('%s', async (_, fence) => {
    const other = new pg.Client({ connectionString: database.url });
    await other.connect();
    await act('tested', '', { dryRun: true });
    await reached('tested', 'ready');
    await other.query('SELECT pg_advisory_lock(4711)');
    const key = `k-in-flight-${fence}`;
    await post('link', key, { waits: true });
    await until(
      async () =>
        (await other.query(`SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`)).rowCount,
    );
    SWITCH_GUARDS.fence = fence;
    await act('tested', '/switch');
    if (fence)
      expect((await until(async () => (await rebuildOf('tested')).waitsFor)) as string).toMatch(
        /held its lanes for longer than 2s/,
      );
    else await reached('tested', 'switched');
    await other.end();
    await reached('tested', 'switched');
    SWITCH_GUARDS.fence = true;
    await settled();
    const found = await database.query('SELECT key FROM tested.chain WHERE key = $1', [key]);
    expect(found).toHaveLength(fence ? 1 : 0);
    await act('tested', '/drop');
  });

  it('does not hold up live messages while a view from outside keeps it from its switch', async () => {
    await act('tested', '', { dryRun: true });
    await reached('tested', 'ready');
    await database.query('CREATE VIEW public.outside AS SELECT key FROM tested.chain');
    // With a lane that is busy, to lock all of them would take 2 s, and fail.
    const other = new pg.Client({ connectionString: database.url });
    await other.connect();
    await other.query(`BEGIN; SELECT FROM lane WHERE queue = 'inbox' AND lane = 7 FOR NO KEY UPDATE`);
    await act('tested', '/switch');
    expect(await until(async () => (await rebuildOf('tested')).waitsFor)).toMatch(/^view outside would keep/);
    await other.end();
    await database.query('DROP VIEW public.outside');
    await reached('tested', 'switched');
    await act('tested', '/drop');
  });

  it('is refused if messages of its types were removed, unless that is accepted', async () => {
    await database.query(`INSERT INTO history_gap (type, "to") VALUES ('link', '2026-01-02T03:04:05Z')`);
    const { status, detail } = await act('tested', '', {});
    expect([status, detail]).toEqual([
      409,
      expect.stringMatching(/^History is complete only from 2026-01-02T/),
    ]);
    expect(await act('tested', '', { partial: true, dryRun: true })).toMatchObject({ status: 202 });
    await database.query('DELETE FROM history_gap');
    await reached('tested', 'ready');
    await act('tested', '/cancel');
  });

  it('is refused for an unknown model, beside an open rebuild, and in the wrong state', async () => {
    expect(await act('nobody', '', {})).toEqual({
      status: 404,
      detail: 'No read model has this name; there are: recruitment, tested.',
    });
    await act('tested', '', { dryRun: true });
    expect(await act('tested', '', {})).toMatchObject({
      status: 409,
      detail: expect.stringContaining('is open'),
    });
    expect(await act('tested', '/rollback')).toMatchObject({ status: 409 });
    await reached('tested', 'ready');
    await act('tested', '/pause');
    expect((await rebuildOf('tested')).paused).toBe(true);
    await act('tested', '/resume');
    await act('tested', '/cancel');
    expect(await act('tested', '/cancel')).toMatchObject({ status: 404 });
  });

  it('is never seen by readers: no error, no missing candidate, and what was posted is there', async () => {
    const stop = new AbortController();
    const faults: unknown[] = [];
    const reading = [0, 1].map(async (n) => {
      while (!stop.signal.aborted) {
        const candidate = `r-${n}-${posted}`;
        const id = await post(APPLIED, candidate, { candidateId: candidate, name: 'Reader' });
        const after = await replicas[n]!.call('GET', `/v1/candidates/${candidate}?after=${id}`);
        const pending = await replicas[1 - n]!.call('GET', `/v1/candidates/${candidate}?pending=true`);
        const list = await replicas[n]!.call('GET', '/v1/candidates?limit=100&sort=appliedAt');
        const tag = after.headers.get('etag')!;
        const again = await replicas[1 - n]!.call('GET', `/v1/candidates/${candidate}`, {
          headers: { 'if-none-match': tag },
        });
        if (
          after.status !== 200 ||
          pending.status !== 200 ||
          again.status !== 304 ||
          list.body.items?.length < 40
        )
          faults.push([after, pending, again.status, list.body]);
      }
    });
    for (const action of ['', '/rollback', '/switch', '/rollback'] as const) {
      await act('recruitment', action, action === '' ? {} : undefined);
      await reached('recruitment', action === '/rollback' ? 'rolled-back' : 'switched');
    }
    stop.abort();
    await Promise.all(reading);
    expect(faults).toEqual([]);
    await act('recruitment', '/drop');
  });
});
