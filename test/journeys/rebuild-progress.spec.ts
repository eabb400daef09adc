import { describe, expect, it } from '@jest/globals';
import { RebuildProgress } from '../../src/rebuild/rebuild-progress.ts';
import { oneTableReadModel } from '../support/one-table-read-model.ts';
import { RebuildClient } from '../support/rebuild-client.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

/** Nobody works on the rebuild: without the role `inbox` it is as the test writes it. */
const { database, replica } = sharedReplica({ ROLES: 'api,upkeep' }, [
  oneTableReadModel('note (id text)', []),
]);
const rebuilds = new RebuildClient(replica);

const metrics = async () => {
  await replica.app.nest.get(RebuildProgress).note();
  const { text } = await replica.call('GET', '/metrics');
  return text.split('\n').filter((line) => /^sluice_rebuild_(done|expected|left)/.test(line));
};

describe('the progress of a rebuild', () => {
  it('has the rate of the last minute, without pauses, also as metrics', async () => {
    await rebuilds.act('', {});
    await database.query(
      `UPDATE rebuild SET status = 'replaying', total = 3000, replay_from = now() - interval '1 hour';
       UPDATE rebuild_lane SET done = 2000 WHERE lane = 0;
       INSERT INTO rebuild_progress (rebuild, at, done)
       SELECT id, clock_timestamp() - interval '70 seconds', 0 FROM rebuild UNION ALL
       SELECT id, clock_timestamp() - interval '50 seconds', 1000 FROM rebuild`,
    );
    const { done, perSecond, secondsLeft } = await rebuilds.latest();
    // 1,000 messages in the 50 s and more since then, and as many to go.
    expect([done, Math.ceil(1_000 / perSecond) >= 50, perSecond > 1]).toEqual([2_000, true, true]);
    expect(secondsLeft).toBeCloseTo(1_000 / perSecond);
    expect(await metrics()).toEqual([
      'sluice_rebuild_done_messages{model="tested"} 2000',
      'sluice_rebuild_expected_messages{model="tested"} 3000',
      expect.stringMatching(/^sluice_rebuild_left_seconds\{model="tested"\} \d/),
    ]);
    await rebuilds.act('/pause');
    expect((await rebuilds.latest()).perSecond).toBeUndefined();
    await rebuilds.act('/resume');
    expect((await rebuilds.latest()).perSecond).toBeUndefined();
    await database.query('UPDATE rebuild_lane SET done = 2500 WHERE lane = 0');
    expect((await rebuilds.latest()).perSecond).toBeGreaterThan(0);
  });

  it('needs an operator when its other schema was kept for long', async () => {
    const items = async () =>
      (await replica.call('GET', '/v1/attention')).body.items.filter(
        ({ kind }: { kind: string }) => kind === 'schema-kept',
      );
    await database.query(`UPDATE rebuild SET status = 'switched', switched_at = now()`);
    expect(await items()).toEqual([]);
    await database.query(`UPDATE rebuild SET switched_at = now() - interval '2 hours'`);
    const [item] = await until(async () => {
      const found = await items();
      return found.length > 0 ? found : undefined;
    });
    expect(item).toMatchObject({
      severity: 'warning',
      subject: { readModel: 'tested' },
      action: { label: 'Drop' },
    });
    await replica.call('POST', item.action.path);
    await until(async () => (await items()).length === 0);
    expect(await metrics()).toEqual([]);
  });
});
