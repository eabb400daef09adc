import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import { Database } from '../../src/database/database.ts';
import { Archive } from '../../src/history/archive.ts';
import { LANE_GROUPS, START } from '../../src/history/history-message.ts';
import { HistoryUpkeep } from '../../src/history/history-upkeep.ts';
import { HISTORY_GUARDS, HISTORY_PAGE, HistorySource } from '../../src/rebuild/history-source.ts';
import { Retention } from '../../src/upkeep/retention/retention.ts';
import { startApp } from '../support/app.ts';
import { oneTableReadModel } from '../support/one-table-read-model.ts';
import { openSession, untilBlocked } from '../support/session.ts';
import { sharedReplicas } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';
import { untilSettled } from '../support/until-settled.ts';

/** Messages that fail once in the rebuild, so that their page is split. */
const failing = new Set<string>();

/** A hash chain: it shows every message that is missing, applied twice or in another order. */
@Denormalizer({ types: ['link', 'long-link'] })
@Injectable()
class Links {
  async apply({ id, key, payload, receivedAt }: Message<{ n: number }>, tx: ReadModelTransaction) {
    if (failing.delete(id)) throw new Error('fails once');
    await tx.query(
      `INSERT INTO chain AS known (key, hash, n) VALUES ($1, md5($2), 1)
       ON CONFLICT (key) DO UPDATE SET hash = md5(known.hash || $2), n = known.n + 1`,
      [key, `${id}/${payload.n}/${receivedAt.toISOString()}`],
    );
  }
}
const LINKS = oneTableReadModel('chain (key text PRIMARY KEY, hash text NOT NULL, n int NOT NULL)', [Links]);
const SETTINGS = {
  INBOX_POLL: '20ms',
  RETENTION_FINISHED: '1h',
  RETENTION_TYPES: 'long-link=30d',
  HISTORY: 'noise=60d,*=forever',
};
const TYPES = ['link', 'long-link', 'noise', 'link'];

const { database, replicas } = sharedReplicas(2, SETTINGS, [LINKS]);
const app = () => replicas[0]!;
beforeEach(async () => {
  await database.query('TRUNCATE inbox, archive_block, archive_id, history_gap, tested.chain');
});
afterEach(async () => {
  HISTORY_PAGE.messages = 2_048;
  Object.assign(HISTORY_GUARDS, { mergesInbox: true, leavesOutApplied: true });
  failing.clear();
  const { status } = await rebuildState();
  if (['switched', 'rolled-back'].includes(status)) await act('/drop');
  else if (!['cancelled', 'dropped', undefined].includes(status)) await act('/cancel');
});

let posted = 0;
/** Messages of several types and keys, one after the other. */
async function post(count: number): Promise<string[]> {
  const messages = Array.from({ length: count }, () => {
    const n = ++posted;
    return { id: `m-${n}`, type: TYPES[n % TYPES.length], key: `k-${(n * 7) % 41}`, payload: { n } };
  });
  for (let from = 0; from < count; from += 100) {
    const { status } = await app().call('POST', '/v1/messages/batch', {
      body: { messages: messages.slice(from, from + 100) },
    });
    expect(status).toBe(202);
  }
  await untilSettled(database);
  return messages.map(({ id }) => id);
}

/** As if everything had been settled two hours ago. */
const age = () =>
  database.query(
    `UPDATE inbox SET settled_at = settled_at - interval '2 hours' WHERE settled_at > now() - interval '1 hour'`,
  );
const sweep = async () => {
  await age();
  await app().app.nest.get(Retention).sweep();
};
/** Every third of the messages at a time, so that blocks overlap. */
async function moveInThirds() {
  const rows = await database.query<{ position: string }>(
    `SELECT position FROM inbox WHERE type <> 'long-link' ORDER BY position`,
  );
  const { nest } = app().app;
  for (const part of [1, 0, 2]) {
    const positions = rows.map(({ position }) => Number(position)).filter((_, index) => index % 3 === part);
    await nest.get(Database).transaction((tx) => nest.get(Archive).move(positions, tx));
  }
}

const rebuildState = async () => (await app().call('GET', '/v1/read-models/tested')).body.rebuild ?? {};
async function act(action: string, body?: object) {
  const reply = await app().call('POST', `/v1/read-models/tested/rebuild${action}`, body ? { body } : {});
  return { status: reply.status, detail: reply.body.detail };
}
async function reached(...statuses: string[]) {
  await until(async () => {
    const { status: now, failure } = await rebuildState();
    if (now === 'failed' && !statuses.includes('failed')) throw new Error(JSON.stringify(failure));
    return statuses.includes(now);
  });
  return rebuildState();
}
const chains = (schema = 'tested') =>
  database.query<{ key: string; hash: string }>(`SELECT * FROM ${schema}.chain ORDER BY key`);
const archived = async (types: string[]) => {
  const [row] = await database.query<{ n: string }>(
    'SELECT COALESCE(sum(count), 0) AS n FROM archive_block WHERE types && $1::text[]',
    [types],
  );
  return Number(row!.n);
};

describe('a rebuild from history', () => {
  it('reads nothing for a rebuild that was cancelled meanwhile', async () => {
    await post(40);
    await sweep();
    const source = app().app.nest.get(HistorySource);
    const cancelled = 999_999;
    const groups = Array.from({ length: LANE_GROUPS }, (_, group) => ({ group, ...START }));
    const pages = await Promise.all(groups.map((cursor) => source.next(cancelled, cursor, ['link'])));
    expect(pages.flatMap(({ rows }) => rows)).toEqual([]);
    for (const { history } of pages)
      expect(
        await app()
          .app.nest.get(Database)
          .transaction((tx) => source.lock(cancelled, history!, tx)),
      ).toBe(false);
  });

  it('applies what is in blocks and what is still in the inbox as one sequence, and shows how far it is', async () => {
    await post(300);
    await moveInThirds();
    await post(100);
    expect(await archived(['link'])).toBeGreaterThan(100);
    HISTORY_PAGE.messages = 7;
    expect(await act('', {})).toMatchObject({ status: 202 });
    const { diff, total, done } = await reached('switched');
    expect(diff.tables).toEqual([{ table: 'chain', onlyOld: 0, onlyNew: 0, different: 0 }]);
    expect(await chains()).toEqual(await chains('tested__previous'));
    expect(await chains()).toHaveLength(41);
    expect(done).toBe(total);
    await post(100);
    await act('/rollback');
    await reached('rolled-back');
    expect(await chains()).toEqual(await chains('tested__next'));
  });

  it.each([
    ['continues behind what parts of a page have applied', 'none', 0],
    ['would apply it twice without the cursors of the lanes (control)', 'leavesOutApplied', 1],
    ['would apply messages in another order without the inbox (control)', 'mergesInbox', 1],
  ])('%s', async (_, guard, different) => {
    const ids = await post(400);
    await moveInThirds();
    const links = ids.filter((_, index) => index % 2 === 0);
    for (const id of links.filter((_, index) => index % 9 === 0)) failing.add(id);
    HISTORY_PAGE.messages = 20;
    if (guard !== 'none') HISTORY_GUARDS[guard as 'mergesInbox'] = false;
    await act('', { dryRun: true });
    // A page of one message is not split: the rebuild stops there, and is told to try again.
    while ((await reached('ready', 'failed')).status === 'failed')
      await database.query(`UPDATE rebuild SET status = 'replaying' WHERE status = 'failed'`);
    const { diff } = await rebuildState();
    expect(Math.sign(diff.tables[0].different)).toBe(different);
  });

  it('is not disturbed by what is moved, merged and erased meanwhile, nor by a replica that stops', async () => {
    for (let n = 0; n < 12; n++) {
      await post(60);
      await sweep();
    }
    HISTORY_PAGE.messages = 3;
    await post(100);
    await act('', { dryRun: true });
    await app().app.nest.get(HistoryUpkeep).run();
    await until(async () => (await rebuildState()).done > 50);
    const other = replicas.pop()!;
    await other.close();
    for (let rounds = 1; (await rebuildState()).status !== 'ready'; rounds++) {
      await post(20);
      await sweep();
      await app().app.nest.get(HistoryUpkeep).run();
      await app().call('DELETE', `/v1/history/keys/nobody-${rounds}`, { body: { reason: 'a test' } });
    }
    replicas.push(await startApp(database, SETTINGS, [LINKS]));
    await post(40);
    await act('/switch');
    const { diff } = await reached('switched');
    expect(diff.tables[0]).toMatchObject({ onlyOld: 0, onlyNew: 0, different: 0 });
    expect(await chains()).toEqual(await chains('tested__previous'));
    const [sum] = await database.query('SELECT sum(n) AS n FROM tested.chain');
    const [all] = await database.query<{ n: string }>(
      `SELECT count(*) AS n FROM generate_series($1::int, $2::int) AS n WHERE n % 4 <> 2`,
      [posted - Number(await postedHere()) + 1, posted],
    );
    expect(sum).toEqual(all);
  });

  it('applies imported messages before all others', async () => {
    await post(60);
    const living = await chains();
    const lines = Array.from({ length: 30 }, (_, n) =>
      JSON.stringify({
        ...{ id: `i-${n}`, source: 'urn:s', type: 'link' },
        ...{ key: living[n % 3]!.key, payload: { n } },
      }),
    );
    const imported = await app().call('POST', '/v1/history/import', {
      body: lines.join('\n'),
      headers: { 'content-type': 'application/x-ndjson' },
    });
    expect(imported.body).toEqual({ imported: 30, duplicates: 0 });
    await act('', { dryRun: true });
    const { diff } = await reached('ready');
    // A key may have had only messages of another type.
    expect(diff.tables[0].different + diff.tables[0].onlyNew).toBe(3);
    const importOne = async () => {
      const { status, body } = await app().call('POST', '/v1/history/import', {
        body: lines[0]!.replace('i-0', 'i-late'),
        headers: { 'content-type': 'application/x-ndjson' },
      });
      return [status, body.detail];
    };
    expect(await importOne()).toEqual([409, expect.stringContaining('A rebuild of tested reads')]);
    const hashes = await database.query<{ key: string; hash: string }>(
      'SELECT key, hash FROM tested__next.chain',
    );
    expect(
      hashes.filter(({ key, hash }) => living.some((one) => one.key === key && one.hash === hash)),
    ).toHaveLength(living.length - 3);
    await act('/switch');
    await reached('switched');
    expect(await importOne()).toEqual([409, expect.stringContaining('is kept for a rollback')]);
    await act('/drop');
    expect(await importOne()).toEqual([200, undefined]);
  });
});

async function postedHere(): Promise<number> {
  const [row] = await database.query<{ n: string }>(
    'SELECT (SELECT count(*) FROM inbox) + (SELECT COALESCE(sum(count), 0) FROM archive_block) AS n',
  );
  return Number(row!.n);
}

describe('what a rebuild has yet to read', () => {
  it('is not removed from history', async () => {
    await database.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload, status, applied, received_at, settled_at)
       SELECT 'old-' || n, 's', 'noise', 'k', n % 256, '{"n":1}', 'finished', n, now() - interval '59 days', now() - interval '59 days'
       FROM generate_series(1, 300) AS n`,
    );
    await sweep();
    const inHistory = await archived(['noise']);
    expect(inHistory).toBe(300);
    await act('', { dryRun: true });
    await act('/pause');
    await database.query(`UPDATE rebuild_history SET complete = lane_group <> 3, applied = 0, position = 0`);
    await database.query(`UPDATE archive_block SET to_at = to_at - interval '2 days'`);
    await app().app.nest.get(HistoryUpkeep).run();
    const groups = () => database.query('SELECT DISTINCT lane_group FROM archive_block ORDER BY 1');
    expect(await groups()).toEqual([{ lane_group: 3 }]);
    await act('/cancel');
    await app().app.nest.get(HistoryUpkeep).run();
    expect(await groups()).toEqual([]);
    expect(await act('', { dryRun: true })).toMatchObject({ status: 202 });
  });

  it('is missing if messages of its types were removed, and only then', async () => {
    await database.query(`INSERT INTO history_gap (type, "to") VALUES ('noise', '2026-01-02T03:04:05Z')`);
    expect(await act('', { dryRun: true })).toMatchObject({ status: 202 });
    await reached('ready');
    await act('/cancel');
    await database.query(`INSERT INTO history_gap (type, "to") VALUES ('long-link', '2026-01-02T03:04:05Z')`);
    const { status, detail } = await act('', {});
    expect([status, detail]).toEqual([
      409,
      expect.stringMatching(
        /^History is complete only from 2026-01-02T03:04:05.000Z: older messages of its types/,
      ),
    ]);
    expect(await act('', { partial: true, dryRun: true })).toMatchObject({ status: 202 });
  });

  it.each(['retention.turn', 'history.rewrite', 'history.import'])(
    'is decided when %s has ended, which may not see the rebuild',
    async (work) => {
      const session = await openSession(database);
      await session.query('BEGIN');
      await session.query(`SELECT pg_advisory_xact_lock_shared(hashtext('sluice'), hashtext('${work}'))`);
      const started = act('', { dryRun: true });
      await untilBlocked(database);
      await session.query(`INSERT INTO history_gap (type, "to") VALUES ('link', now())`);
      await session.query('COMMIT');
      expect(await started).toMatchObject({
        status: 409,
        detail: expect.stringContaining('History is complete'),
      });
      await session.close();
    },
  );
});
