import { describe, expect, it } from '@jest/globals';
import { Loops } from '../../src/clock/loops.ts';
import { ScheduledJobs } from '../../src/clock/scheduled-jobs.ts';
import { Retention } from '../../src/upkeep/retention/retention.ts';
import { startApp } from '../support/app.ts';
import { createDatabase } from '../support/database.ts';
import { metricsOf, metricsText } from '../support/metrics.ts';
import { openSession, untilBlocked } from '../support/session.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const { database, replica } = sharedReplica({
  ROLES: 'api,upkeep',
  RETENTION_FINISHED: '7d',
  RETENTION_DEAD: '30d',
  RETENTION_DEAD_QUEUES: 'inbox=14d,brief=2d',
  RETENTION_TYPES: 'brief/kept=3d,brief/*=1h',
  RETENTION_WAITING: '60d',
  RETENTION_AUDIT: '100d',
});

const WAITING = ['pending', 'held', 'scheduled'];
const inbox = (id: string, status: string, age: string, { type = 't', key = id, due = '' } = {}) =>
  database.query(
    `INSERT INTO inbox (id, source, type, key, lane, payload, status, waits, received_at, due_at, settled_at, lapsed_at)
     VALUES ($1, 's', $4, $5, 0, 'null', $2, $6, now() - $3::interval, $7,
             CASE WHEN NOT $8 THEN now() - $3::interval END,
             CASE WHEN NOT $8 AND $2 <> 'finished' THEN now() - $3::interval END) RETURNING position`,
    [
      ...[id, status, age, type, key],
      ...[{ held: 'held', scheduled: 'due' }[status] ?? null, due || null, WAITING.includes(status)],
    ],
  ) as Promise<[{ position: string }]>;
/** Without alerts of the service. */
const ids = async () => {
  const sql = `SELECT id FROM inbox WHERE type NOT LIKE 'urn:sluice:alerts/%' ORDER BY id`;
  return (await database.query<{ id: string }>(sql)).map(({ id }) => id);
};

/** Loops that would be stalled in an hour: those in the middle of a pass. */
const stalledLoops = () => replica.app.nest.get(Loops).stalled(Date.now() + 3_600_000);

describe('retention', () => {
  it('A10 A11 removes settled rows, each status after its own time, and nothing that is pending', async () => {
    await inbox('finished-old', 'finished', '8 days');
    await inbox('finished-new', 'finished', '6 days');
    await inbox('dead-new', 'dead', '13 days');
    await inbox('dead-old', 'dead', '15 days');
    await inbox('discarded-new', 'discarded', '13 days');
    await inbox('discarded-old', 'discarded', '15 days');
    await inbox('expired-old', 'expired', '31 days');
    await inbox('superseded-old', 'superseded', '8 days');
    await inbox('waiting', 'pending', '0');
    const [unsent] = await inbox('with-unsent-delivery', 'finished', '8 days');
    const [pending] = await inbox('with-pending-delivery', 'finished', '8 days');
    await database.query(
      `INSERT INTO outbox (listener, lane, message, key, sequence) VALUES (1, 256, $1, 'k', 1)`,
      [unsent.position],
    );
    await database.query(
      `INSERT INTO outbox (listener, lane, message, key, sequence, status, settled_at)
       VALUES (1, 256, $1, 'k', 1, 'finished', now() - interval '8 days')`,
      [pending.position],
    );

    await replica.app.nest.get(Retention).sweep();

    expect(await ids()).toEqual([
      'dead-new',
      'discarded-new',
      'finished-new',
      'waiting',
      'with-unsent-delivery',
    ]);
    expect(await database.query('SELECT 1 FROM outbox')).toHaveLength(1);
  });

  it('removes rows later that were too young at an earlier scan, wherever they are', async () => {
    const fill = (from: number, to: number, age: string) =>
      database.query(
        `INSERT INTO inbox (id, source, type, key, lane, payload, status, received_at, settled_at)
         SELECT 'm-' || n, 's', 'brief/x', 'm-' || n, 0, 'null', 'finished', now() - interval '61 min',
                now() - $3::interval FROM generate_series($1::int, $2::int) AS n`,
        [from, to, age],
      );
    const left = async () => (await ids()).filter((id) => id.startsWith('m-')).length;
    const retention = replica.app.nest.get(Retention);
    await fill(1, 1_500, '61 min');
    await fill(1_501, 2_400, '59 min');
    await retention.sweep();
    expect(await left()).toBe(900);
    await database.query(`UPDATE inbox SET settled_at = settled_at - interval '2 min' WHERE id LIKE 'm-%'`);
    await retention.sweep();
    expect(await left()).toBe(0);
  });

  it('does nothing while another replica sweeps', async () => {
    await inbox('old', 'finished', '8 days');
    const other = await startApp(database, { ROLES: 'api,upkeep' });
    await Promise.all([replica, other].map(({ app }) => app.nest.get(Retention).sweep()));
    await other.close();
    expect(await ids()).not.toContain('old');
  });

  it('A10 keeps each type for its own time, with its deliveries', async () => {
    await database.query('TRUNCATE inbox, outbox');
    const [gone] = await inbox('brief-old', 'finished', '2 hours', { type: 'brief/x' });
    await inbox('brief-new', 'finished', '10 minutes', { type: 'brief/x' });
    await inbox('kept', 'finished', '2 days', { type: 'brief/kept' });
    await inbox('other', 'finished', '2 days', { type: 'briefly' });
    await database.query(
      `INSERT INTO outbox (listener, lane, message, key, sequence, status, settled_at)
       VALUES (1, 256, $1, 'k', 1, 'finished', now() - interval '2 hours')`,
      [gone.position],
    );
    await replica.app.nest.get(Retention).sweep();
    expect(await ids()).toEqual(['brief-new', 'kept', 'other']);
    expect(await database.query('SELECT 1 FROM outbox')).toHaveLength(0);
  });

  it('E6 keeps dead letters of each queue for its own time', async () => {
    await database.query('TRUNCATE inbox, outbox');
    for (const [number, name] of ['brief', 'usual'].entries()) {
      await database.query(
        `INSERT INTO listener (name, revision, definition, types, lanes, sealed, secret_from, origin, state_by, created_by, updated_by)
         VALUES ($1, $2, '{}', '{x}', 1, 'v1:', 'service', 'api', 't', 't', 't')`,
        [name, number],
      );
      const [message] = await inbox(`of-${name}`, 'finished', '3 days');
      await database.query(
        `INSERT INTO outbox (listener, lane, message, key, sequence, status, settled_at, lapsed_at)
         SELECT number, number * 256, $2, 'k', 1, 'dead', now() - interval '3 days', now() - interval '3 days'
         FROM listener WHERE name = $1`,
        [name, message.position],
      );
    }
    await replica.app.nest.get(Retention).sweep();
    const left = await database.query(
      'SELECT listener.name FROM outbox JOIN listener ON listener.number = outbox.listener',
    );
    expect(left).toEqual([{ name: 'usual' }]);
  });

  it('never removes a dead letter that others wait behind, and removes the hold with the last of a key', async () => {
    await database.query('TRUNCATE inbox, outbox, hold');
    const hold = (key: string) =>
      database.query(
        `INSERT INTO hold (queue, key, lane, until, reason, set_at)
         VALUES ('inbox', $1, 0, 'infinity', 'dead-letter', now() - interval '40 days')`,
        [key],
      );
    await inbox('waited-for', 'dead', '40 days', { key: 'busy' });
    await inbox('behind', 'held', '39 days', { key: 'busy' });
    await inbox('alone', 'dead', '40 days', { key: 'quiet' });
    await hold('busy');
    await hold('quiet');
    await replica.app.nest.get(Retention).sweep();
    expect(await ids()).toEqual(['behind', 'waited-for']);
    const held = await database.query('SELECT key FROM hold WHERE until > clock_timestamp()');
    expect(held).toEqual([{ key: 'busy' }]);
  });

  it.each(['inbox', 'outbox'])(
    'keeps a dead letter of the %s that is revived at the same time',
    async (stage) => {
      await database.query('TRUNCATE inbox, outbox, hold');
      const [message] = await inbox('revived', 'dead', '40 days');
      if (stage === 'outbox')
        await database.query(
          `INSERT INTO outbox (listener, lane, message, key, sequence, status, settled_at, lapsed_at)
         VALUES (1, 256, $1, 'k', 1, 'dead', now() - interval '40 days', now() - interval '40 days')`,
          [message.position],
        );
      const reviving = await openSession(database);
      try {
        await reviving.query(
          `BEGIN; UPDATE ${stage} SET status = 'held', waits = 'held', settled_at = NULL, lapsed_at = NULL`,
        );
        const sweeping = replica.app.nest.get(Retention).sweep();
        await untilBlocked(database);
        await reviving.query('COMMIT');
        await sweeping;
      } finally {
        await reviving.close();
      }
      expect(await database.query(`SELECT status FROM ${stage}`)).toEqual([{ status: 'held' }]);
    },
  );

  it('keeps the hold of a later dead letter when an earlier one of its key is removed', async () => {
    await database.query('TRUNCATE inbox, outbox, hold');
    await inbox('earlier', 'dead', '40 days', { key: 'k' });
    await inbox('later', 'dead', '3 days', { key: 'k' });
    await database.query(
      `INSERT INTO hold (queue, key, lane, until, reason, set_at)
       VALUES ('inbox', 'k', 0, 'infinity', 'dead-letter', now() - interval '4 days')`,
    );
    const sweep = async () => {
      await replica.app.nest.get(Retention).sweep();
      return database.query('SELECT key FROM hold WHERE until > clock_timestamp()');
    };
    expect(await sweep()).toEqual([{ key: 'k' }]);
    expect(await ids()).toEqual(['later']);
    await database.query(`UPDATE inbox SET settled_at = now() - interval '40 days'`);
    expect(await sweep()).toEqual([]);
    expect(await ids()).toEqual([]);
  });

  it('A11 gives up what was never handled after a longer time: recorded, counted, and not removed at once', async () => {
    await database.query('TRUNCATE inbox, outbox, hold');
    const [old] = await inbox('forgotten', 'held', '61 days');
    await inbox('patient', 'pending', '59 days');
    await inbox('planned', 'scheduled', '61 days', { due: '2999-01-01T00:00:00Z' });
    await inbox('just-due', 'pending', '61 days', { due: new Date(Date.now() - 1_000).toISOString() });
    await database.query(
      `INSERT INTO outbox (listener, lane, message, key, sequence, created_at)
       VALUES (1, 256, $1, 'k', 1, now() - interval '61 days')`,
      [old.position],
    );
    await replica.app.nest.get(Retention).sweep();
    const rows = await database.query('SELECT id, status, error FROM inbox ORDER BY id');
    expect(rows).toEqual([
      { id: 'forgotten', status: 'expired', error: 'it was not handled within 60d' },
      { id: 'just-due', status: 'pending', error: null },
      { id: 'patient', status: 'pending', error: null },
      { id: 'planned', status: 'scheduled', error: null },
    ]);
    expect(await database.query('SELECT status, error FROM outbox')).toEqual([
      { status: 'dead', error: 'it was not delivered within 60d' },
    ]);
    const text = await metricsText(replica);
    expect(text).toMatch(/sluice_retention_given_up_total\{stage="inbox"\} 1/);
    expect(text).toMatch(/sluice_retention_given_up_total\{stage="outbox"\} 1/);
    // What a replica is working on is left to it.
    await database.query(
      `UPDATE inbox SET status = 'processing', received_at = now() - interval '61 days' WHERE id = 'patient'`,
    );
    await replica.app.nest.get(Retention).sweep();
    expect(await database.query(`SELECT status FROM inbox WHERE id = 'patient'`)).toEqual([
      { status: 'processing' },
    ]);
  });

  it('counts and logs a failed sweep, and retries it', async () => {
    await database.query('TRUNCATE inbox, outbox, hold');
    await inbox('stuck', 'finished', '8 days');
    await database.query(`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no row leaves'; END $$;
      CREATE TRIGGER refuse BEFORE DELETE ON inbox FOR EACH ROW EXECUTE FUNCTION refuse()`);
    const failed = async () => (await metricsOf(replica))('retention_failed_total');
    expect(await failed()).toBe(0);
    replica.app.nest.get(ScheduledJobs).tick('retention');
    await until(async () => (await failed()) > 0);
    const reported = replica.lines.filter((line) => line.includes('"loop":"retention"'));
    expect(JSON.parse(reported[0]!)).toMatchObject({
      event: 'loop.failed',
      error: { message: 'no row leaves' },
    });
    expect(await ids()).toEqual(['stuck']);

    await database.query('DROP FUNCTION refuse CASCADE');
    await until(async () => (await ids()).length === 0);
    await until(() => !stalledLoops().includes('retention'));
  });

  it('is shown by health and metrics when it hangs', async () => {
    expect(stalledLoops()).not.toContain('retention');
    const { text } = await replica.call('GET', '/metrics');
    expect(text).toMatch(/sluice_loop_last_progress_timestamp_seconds\{loop="retention"\} \d/);
    const other = await openSession(database);
    await other.query('BEGIN; LOCK TABLE outbox');
    replica.app.nest.get(ScheduledJobs).tick('retention');
    await untilBlocked(database);
    expect(stalledLoops()).toContain('retention');
    await other.query('COMMIT');
    await other.close();
    await until(() => !stalledLoops().includes('retention'));
  });

  it('removes audit entries after their own time, and finished actions with them', async () => {
    await database.query(`
      INSERT INTO audit (by, action, at) VALUES ('a', 'hold.put', now() - interval '101 days'), ('b', 'hold.put', now())`);
    await database.query(`
      INSERT INTO ruling (kind, filter, matched, created_by, done_at)
      VALUES ('revive', '{}', 1, 'a', now() - interval '101 days'), ('revive', '{}', 1, 'b', now())`);
    await database.query(
      `INSERT INTO ruling_item (ruling, stage, lane, key, position) SELECT id, 'inbox', 0, 'k', 1 FROM ruling`,
    );
    await replica.app.nest.get(Retention).sweep();
    expect(await database.query('SELECT by FROM audit')).toEqual([{ by: 'b' }]);
    expect(await database.query('SELECT created_by FROM ruling')).toEqual([{ created_by: 'b' }]);
  });

  it('removes finished replays like actions, and none with something left to send', async () => {
    await database.query(`
      INSERT INTO replay (listener, filter, matched, created_by, created_at, done_at)
      SELECT 999, '{}', 1, by, now() - interval '200 days', done_at
      FROM (VALUES ('over', now() - interval '101 days'), ('young', now()), ('waiting', NULL),
                   ('on its way', now() - interval '101 days')) AS given (by, done_at)`);
    await database.query(`
      INSERT INTO replay_delivery (replay, lane, key, position, reopened_at)
      SELECT id, 0, 'k', 1, done_at FROM replay`);
    await database.query(`
      INSERT INTO outbox (listener, lane, message, key, sequence, replay)
      SELECT 999, 256, 0, 'k', 1, id FROM replay WHERE created_by = 'on its way'`);
    const left = async () => {
      await replica.app.nest.get(Retention).sweep();
      const rows = await database.query<{ by: string }>(
        'SELECT created_by AS by FROM replay JOIN replay_delivery ON replay = replay.id ORDER BY replay.id',
      );
      return rows.map(({ by }) => by);
    };
    expect(await left()).toEqual(['young', 'waiting', 'on its way']);
    await database.query(
      `UPDATE outbox SET status = 'finished', waits = NULL, settled_at = now() WHERE listener = 999`,
    );
    expect(await left()).toEqual(['young', 'waiting']);
    expect(await database.query('SELECT FROM replay')).toHaveLength(2);
  });

  it('restarts the time of revived rows', async () => {
    await database.query('TRUNCATE inbox, outbox, hold');
    await inbox('revived', 'dead', '61 days');
    expect((await replica.call('POST', '/v1/dead-letters/revived/revive')).status).toBe(200);
    await replica.app.nest.get(Retention).sweep();
    expect(await database.query('SELECT id, status FROM inbox')).toEqual([{ id: 'revived', status: 'held' }]);
  });

  it('removes the sequences of producers that were silent long enough, counted, and no others', async () => {
    const own = await createDatabase();
    const fresh = await startApp(own, { ROLES: 'api,upkeep', RETENTION_PRODUCERS: '20d' });
    const post = async (producer: string, sequence: number) => {
      const headers = { 'producer-id': producer, 'producer-sequence': String(sequence) };
      return (await fresh.call('POST', '/v1/messages', { body: { type: 't', payload: sequence }, headers }))
        .body;
    };
    try {
      // More than are removed at a time, so that none is skipped between two parts.
      await own.query(`
        INSERT INTO producer (source, id, last, seen_at)
        SELECT 's-' || n % 3, 'p-' || n, 5, now() - CASE WHEN n % 2 = 0 THEN interval '21 days' ELSE interval '19 days' END
        FROM generate_series(1, 5000) AS n`);
      for (const producer of ['idle', 'busy', 'posting']) for (const n of [1, 2]) await post(producer, n);
      await own.query(
        `UPDATE producer SET seen_at = now() - interval '21 days' WHERE id IN ('idle', 'posting')`,
      );
      const posting = await openSession(own);
      await posting.query(`BEGIN; SELECT FROM producer WHERE id = 'posting' FOR UPDATE`);
      await fresh.app.nest.get(Retention).sweep();
      await posting.query('COMMIT');
      await posting.close();

      const left = await own.query(`
        SELECT count(*)::int AS total, count(*) FILTER (WHERE seen_at < now() - interval '20 days')::int AS idle FROM producer`);
      expect(left).toEqual([{ total: 2_502, idle: 1 }]);
      expect((await metricsOf(fresh))('retention_removed_total{stage="producers"}')).toBe(2_501);
      expect(await post('busy', 2)).toMatchObject({ duplicate: true });
      // Its messages still exist, with their numbers; beyond them, the sequence starts over.
      const [first] = await own.query<{ id: string }>(
        `SELECT id FROM inbox WHERE producer = 'idle' AND sequence = 1`,
      );
      expect(await post('idle', 1)).toMatchObject({ duplicate: true, id: first!.id });
      await own.query(`DELETE FROM inbox WHERE producer = 'idle'; DELETE FROM producer WHERE id = 'idle'`);
      expect(await post('idle', 3)).toEqual({
        id: expect.any(String),
        status: 'pending',
        gap: { from: 1, to: 2 },
      });
      expect(await post('idle', 3)).toMatchObject({ duplicate: true });
    } finally {
      await fresh.close();
      await own.drop();
    }
  });
});
