import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { GUIDES, type Item, KINDS } from '../../src/upkeep/attention/attention-item.ts';
import { READ_KEY } from '../support/app.ts';
import { GroupClient } from '../support/group-client.ts';
import { status } from '../support/receiver.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

let cluster: TestCluster;
let groups: GroupClient;
/** The kinds that a test has shown; the last test expects all of them. */
const shown = new Set<string>();

beforeAll(async () => {
  cluster = await TestCluster.open({ INBOX_ON_DEAD: 'skip' });
  groups = new GroupClient(cluster.replica);
});
afterAll(() => cluster.close());

async function items(): Promise<Item[]> {
  return (await cluster.replica.call('GET', '/v1/attention', { key: READ_KEY })).body.items;
}

/** The item of a kind, once it is there; it is there once. */
async function itemOnce(kind: string, subject: object): Promise<Item> {
  const found = () => items().then((all) => all.filter((item) => item.kind === kind));
  const matching = await until(async () => {
    const those = (await found()).filter((item) => {
      for (const [name, value] of Object.entries(subject))
        if ((item.subject as Record<string, unknown>)[name] !== value) return false;
      return true;
    });
    return those.length > 0 ? those : undefined;
  });
  expect(matching).toHaveLength(1);
  shown.add(kind);
  return matching![0]!;
}

async function goneOnce(kind: string): Promise<void> {
  await until(async () => (await items()).every((item) => item.kind !== kind));
}

/** Does what the item offers. */
async function act({ action }: Item): Promise<number> {
  return (await cluster.call(action!.method, action!.path, action!.body)).status;
}

describe('what needs an operator', () => {
  it('is nothing on a healthy service', async () => {
    const seen = await cluster.replica.call('GET', '/v1/attention');
    expect(seen.body).toEqual({ observedAt: expect.stringMatching(/Z$/), items: [] });
  });

  it('has work on history that fails', async () => {
    await cluster.database.query(`INSERT INTO history_failure (work, error) VALUES ('archive', 'disk full')`);
    const item = await itemOnce('history-failed', {});
    expect(item).toMatchObject({
      severity: 'critical',
      sentence: 'Messages cannot be moved to history: disk full.',
    });
    await cluster.database.query('DELETE FROM history_failure');
    await goneOnce('history-failed');
  });

  it('has sources that are not read, and messages that they refused', async () => {
    await cluster.database.query(
      `INSERT INTO source (name, kind, state, error, leased_until) VALUES ('shop', 'nats', 'failing', 'refused', 'infinity')`,
    );
    await cluster.database.query(
      `INSERT INTO source_refusal (source, place, reason, headers, body) VALUES ('shop', 'S/1', 'no event', '{}', '')`,
    );
    const failing = await itemOnce('source-failing', { source: 'shop' });
    expect(failing.sentence).toBe('The source shop cannot be read: refused.');
    expect(await itemOnce('messages-refused', { source: 'shop' })).toMatchObject({
      severity: 'warning',
      count: 1,
    });
    await cluster.database.query(`UPDATE source SET leased_until = '-infinity'`);
    await until(async () =>
      (await itemOnce('source-failing', {})).sentence.includes('is read by no replica'),
    );
    await cluster.database.query('DELETE FROM source');
    await goneOnce('messages-refused');
  });

  it('has dead letters, one item per cause, with the request that revives them', async () => {
    const receiver = await cluster.listen('bad', { terminalStatuses: [400], onDead: 'skip' }, status(400));
    await cluster.post(...Array.from({ length: 3 }, (_, n) => ({ type: 'bad/x', key: `k${n}` })));
    await until(async () => (await cluster.counts('bad')).dead === 3);
    const item = await itemOnce('dead-letters', { listener: 'bad' });
    expect(item).toMatchObject({ severity: 'warning', count: 3, guide: 'dead-letters' });
    expect(item.sentence).toMatch(/^3 dead letters for bad: /);
    expect(item.since).toMatch(/Z$/);

    receiver.respond = (_received, response) => void response.writeHead(204).end();
    expect(await act(item)).toBe(202);
    await goneOnce('dead-letters');
  });

  it('has open circuits and disabled listeners', async () => {
    await cluster.listen('gone', {}, status(410));
    await cluster.post({ type: 'gone/x' });
    const disabled = await itemOnce('listener-disabled', { listener: 'gone' });
    expect(disabled).toMatchObject({ severity: 'critical', guide: 'one-listener-fails' });
    await cluster.call('DELETE', '/v1/listeners/gone');

    const number = await (async () => {
      await cluster.listen('down', {}, status(500));
      return cluster.numberOf('down');
    })();
    await cluster.database.query(
      `INSERT INTO gate (listener, closed_until, reason, openings) VALUES ($1, now() + interval '1 hour', 'circuit open: responded 500', 1)`,
      [number],
    );
    const open = await itemOnce('circuit-open', { listener: 'down' });
    expect(open.sentence).toBe('The circuit of the listener down is open: responded 500.');
    expect(await act(open)).toBe(200);
    await cluster.call('DELETE', '/v1/listeners/down');
    await goneOnce('circuit-open');
  });

  it('has queues that nobody pulls', async () => {
    await cluster.call('PUT', '/v1/listeners/queue', { mode: 'pull', types: ['queue/*'] });
    await cluster.post({ type: 'queue/x' });
    await until(async () => (await cluster.counts('queue')).pending === 1);
    const number = await cluster.numberOf('queue');
    await cluster.database.query(
      `UPDATE outbox SET created_at = now() - interval '100 seconds' WHERE listener = $1`,
      [number],
    );
    expect(await itemOnce('queue-not-consumed', { listener: 'queue' })).toMatchObject({
      guide: 'a-queue-is-not-consumed',
      sentence: expect.stringMatching(
        /^The queue queue has a message that no consumer has acknowledged for 1\d\d s/,
      ),
    });
    const { body } = await cluster.call('POST', '/v1/listeners/queue/pull', {});
    await cluster.call('POST', '/v1/listeners/queue/acknowledge', { acknowledge: [body.messages[0].lease] });
    await goneOnce('queue-not-consumed');
  });

  it('has indefinite holds that an operator set', async () => {
    await cluster.call('PUT', '/v1/keys/a%2Fb/hold', { reason: 'a look' });
    await cluster.call('PUT', '/v1/keys/ends/hold', { reason: 'x', until: '2100-01-01T00:00:00Z' });
    const item = await itemOnce('hold-without-end', { key: 'a/b' });
    expect(item.sentence).toBe('The key a/b is held indefinitely: a look.');
    expect(await act(item)).toBe(204);
    await goneOnce('hold-without-end');
  });

  it('has producers with a gap', async () => {
    const send = (sequence: string) =>
      cluster.replica.call('POST', '/v1/messages', {
        body: { type: 'x', payload: 1 },
        headers: { 'producer-id': 'p-1', 'producer-sequence': sequence },
      });
    await send('0');
    await send('3');
    await cluster.database.query(`UPDATE producer SET seen_at = now() - interval '1 minute'`);
    const item = await itemOnce('producer-gap', { producer: 'p-1' });
    expect(item).toMatchObject({ count: 2, sentence: expect.stringContaining('from 1 on') });
    await send('1');
    await send('2');
    await goneOnce('producer-gap');
  });

  it('has groups that are behind, unowned partitions, and offsets that have expired', async () => {
    const { topic, group } = await groups.create();
    await groups.post(topic, 5);
    await cluster.database.query(`UPDATE topic_entry SET at = now() - interval '100 seconds'`);
    expect(await itemOnce('consumer-lag', { group })).toMatchObject({ count: 5, severity: 'warning' });
    expect(await itemOnce('partition-unowned', { group })).toMatchObject({ count: 1 });
    await cluster.database.query(
      `UPDATE topic_partition SET earliest = 3 WHERE topic = (SELECT number FROM topic WHERE name = $1)`,
      [topic],
    );
    expect(await itemOnce('offsets-expired', { group })).toMatchObject({ count: 3, severity: 'critical' });
    await groups.expect(204, 'DELETE', `/v1/groups/${group}`);
  });

  it('has a rebuild that stopped at a message, with the request that cancels it', async () => {
    const options = { dryRun: true, recordFailures: false, acceptFailures: false, partial: false };
    await cluster.database.query(
      `INSERT INTO rebuild (model, target, status, options, migrations, created_by, failure)
       VALUES ('recruitment', 'recruitment__next', 'failed', $1, '{}', 'test', '{"error": "as planned"}')`,
      [options],
    );
    const item = await itemOnce('rebuild-stopped', { readModel: 'recruitment' });
    expect(item.severity).toBe('warning');
    expect(await act(item)).toBe(200);
    await goneOnce('rebuild-stopped');
  });

  it('has a schema that is kept long after a switch', async () => {
    const options = { dryRun: false, recordFailures: false, acceptFailures: false, partial: false };
    await cluster.database.query(
      `INSERT INTO rebuild (model, target, status, options, migrations, created_by, switched_at)
       VALUES ('recruitment', 'recruitment__previous', 'switched', $1, '{}', 'test', now() - interval '2 hours')`,
      [options],
    );
    const item = await itemOnce('schema-kept', { readModel: 'recruitment' });
    expect(item).toMatchObject({ severity: 'warning', action: { label: 'Drop' } });
    await cluster.database.query('DELETE FROM rebuild');
    await goneOnce('schema-kept');
  });

  it('has replays that make no progress', async () => {
    await cluster.listen('slow', { terminalStatuses: [400] }, status(400));
    await cluster.post({ type: 'slow/x' });
    await until(async () => (await cluster.counts('slow')).dead === 1);
    await cluster.call('POST', '/v1/listeners/slow/pause', {});
    const started = await cluster.call('POST', '/v1/listeners/slow/replay', {
      since: '2020-01-01T00:00:00Z',
    });
    await cluster.database.query(
      `UPDATE replay SET progressed_at = now() - interval '2 minutes' WHERE id = $1`,
      [started.body.id],
    );
    await itemOnce('stalled-replay', { listener: 'slow', replay: started.body.id });
    await cluster.call('DELETE', '/v1/listeners/slow');
  });

  describe('with time passed', () => {
    beforeEach(async () => {
      await cluster.database.query('DELETE FROM inbox');
    });

    it('has what is ready and old, and what expires soon, when no replica runs a role', async () => {
      const worker = cluster.replica;
      const watcher = await cluster.start({ ROLES: 'api' });
      cluster.replicas.reverse();
      await cluster.stop(worker);
      // What it posted at last, such as an alert about dead letters, would be counted below.
      await cluster.database.query('DELETE FROM inbox');
      const roles = await until(async () => {
        const missing = (await items()).filter(({ kind }) => kind === 'role-missing');
        return missing.length === 3 ? missing : undefined;
      });
      expect(roles!.map(({ severity }) => severity)).toEqual(['critical', 'critical', 'critical']);
      shown.add('role-missing');

      const revive = await watcher.call('POST', '/v1/dead-letters/revive', { body: { filter: {} } });
      await cluster.database.query(`UPDATE ruling SET created_at = now() - interval '2 minutes'`);
      expect(await itemOnce('stalled-revive', { action: revive.body.id })).toMatchObject({
        severity: 'warning',
        action: { method: 'POST', path: `/v1/dead-letters/rulings/${revive.body.id}/cancel` },
      });

      const soon = new Date(Date.now() + 60_000).toISOString();
      await watcher.call('POST', '/v1/messages', { body: { type: 'x', payload: 1, expiresAt: soon } });
      await cluster.database.query(`UPDATE inbox SET received_at = now() - interval '100 seconds'`);
      expect(await itemOnce('backlog-old', { stage: 'inbox' })).toMatchObject({
        guide: 'the-backlog-grows',
        sentence: expect.stringMatching(/^A message is ready and has waited for 1\d\d? ?s|min/),
      });
      expect(await itemOnce('expiring-soon', {})).toMatchObject({ count: 1, severity: 'critical' });
      await cluster.database.query(`UPDATE inbox SET status = 'processing' WHERE settled_at IS NULL`);
      expect(await itemOnce('inconsistent-rows', {})).toMatchObject({ count: 1, severity: 'critical' });
      const kinds = (await items()).map(({ kind }) => kind);
      expect(kinds).toEqual(KINDS.flatMap((kind) => kinds.filter((one) => one === kind)));
    });
  });

  it('was shown once by each kind, and each names a chapter that exists', () => {
    expect([...shown].sort()).toEqual([...KINDS].sort());
    const operating = readFileSync(resolve(import.meta.dirname, '../../docs/operating.md'), 'utf8');
    const anchors = [...operating.matchAll(/^#+ (.+)$/gm)].map(([, title]) =>
      title!
        .toLowerCase()
        .replaceAll(/[^a-z0-9 -]/g, '')
        .replaceAll(' ', '-'),
    );
    for (const guide of Object.values(GUIDES)) expect(anchors).toContain(guide);
  });
});
