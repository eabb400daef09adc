import { beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { sharedReplica } from '../../../test/support/shared-replica.ts';
import { until } from '../../../test/support/until.ts';
import { SETTINGS_TOKEN } from '../../config/settings.ts';
import { Listeners } from '../../listeners/listeners.ts';
import type { LeasedLane } from '../claim/leased-lane.ts';
import { OutboxQueue } from '../claim/outbox-queue.ts';
import { OutboxStore } from '../outbox-store.ts';
import { Gates } from './gates.ts';
import { Probes } from './probes.ts';

/** Without the role `outbox`: only the test leases lanes. */
const { database, replica } = sharedReplica({ ROLES: 'api,inbox', EGRESS_ALLOW: '127.0.0.0/8' });
const get = <T>(token: abstract new (...args: never[]) => T): T => replica.app.nest.get(token as never);

let started: LeasedLane[];
const startRun = async (leased: LeasedLane) => {
  started.push(leased);
};
/** Probes that were given back; a circuit that was not probed keeps its reason. */
const given = async () => (await database.query(`SELECT FROM gate WHERE reason = 'to be probed'`)).length;

beforeAll(async () => {
  const body = { url: 'http://127.0.0.1:8080/', types: ['probed'] };
  for (const name of ['one', 'two'])
    expect((await replica.call('PUT', `/v1/listeners/${name}`, { body })).status).toBe(201);
  await replica.call('POST', '/v1/messages', { body: { type: 'probed', payload: {} } });
  await until(async () => (await database.query('SELECT FROM outbox')).length === 2);
});
/** Two listeners with a delivery each, whose circuits may be probed. */
beforeEach(async () => {
  started = [];
  await database.query(`UPDATE lane SET leased_until = '-infinity', token = NULL WHERE queue = 'outbox'`);
  await database.query('DELETE FROM gate');
  await database.query(`
    INSERT INTO gate (listener, closed_until, reason, openings)
    SELECT number, now() - interval '1 s', 'open', 1 FROM listener`);
  await get(Gates).refresh();
});

describe('circuits that may be probed', () => {
  it.each([
    [-1, 0],
    [0, 0],
    [1, 1],
    [8, 2],
  ])('are probed with one delivery each, up to a limit: %i', async (limit, count) => {
    await get(Probes).start(limit, startRun);
    expect(started.map(({ maxRows }) => maxRows)).toEqual(Array(count).fill(1));
    await until(async () => (await given()) === count);
  });

  it('can be probed again at once if the lane was lost while its rows were parked', async () => {
    const queue = { lanes: { lease: async () => ({ lease: { token: 'none', lanes: [] }, rows: [] }) } };
    const probes = new Probes(
      replica.app.nest.get(SETTINGS_TOKEN),
      get(Gates),
      get(Listeners),
      get(OutboxStore),
      queue as unknown as OutboxQueue,
    );
    await probes.start(1, startRun);
    expect([started, await given()]).toEqual([[], 1]);
  });
});
