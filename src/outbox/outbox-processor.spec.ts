import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { POLLING_OFF } from '../../test/support/polling-off.ts';
import type { Receiver } from '../../test/support/receiver.ts';
import { TestCluster } from '../../test/support/test-cluster.ts';
import { until } from '../../test/support/until.ts';
import type { LeaseRequest } from '../lanes/lane-queue-types.ts';
import { Wakeups } from '../lanes/wakeups.ts';
import { RunSizes } from './claim/claim-sizes.ts';
import { OutboxQueue } from './claim/outbox-queue.ts';

let stage: TestCluster;

beforeAll(async () => {
  stage = await TestCluster.open(POLLING_OFF);
});
afterEach(() => stage.clear());
afterAll(() => stage.close());

type Lease = (request: LeaseRequest) => Promise<unknown>;

/** The lease requests of the processor until `restore`; `before` is called before each one. */
function watchLeases(before: (request: LeaseRequest, nth: number) => void): LeaseRequest[] {
  const queue = stage.replica.app.nest.get(OutboxQueue).lanes as unknown as { lease: Lease };
  const { lease } = queue;
  const requests: LeaseRequest[] = [];
  queue.lease = async (request) => {
    requests.push(request);
    before(request, requests.length);
    return lease.call(queue, request);
  };
  restore = () => {
    queue.lease = lease;
  };
  return requests;
}
let restore: () => void = () => undefined;
afterEach(() => restore());

/** Inserts one delivery per listener without a wake-up; resolves with their lanes. */
async function insertDeliveries(...listeners: readonly string[]): Promise<number[]> {
  const lanes = [];
  for (const name of listeners) {
    const [row] = await stage.database.query<{ lane: number }>(
      `WITH message AS (
         INSERT INTO inbox (id, source, type, key, lane, payload, status, settled_at)
         VALUES (gen_random_uuid(), 's', 't', 'k', 0, 'null', 'finished', now()) RETURNING position)
       INSERT INTO outbox (listener, lane, message, key, sequence)
       SELECT $1::int, $1 * 256, position, 'k', 1 FROM message RETURNING lane`,
      [await stage.numberOf(name)],
    );
    lanes.push(row!.lane);
  }
  return lanes;
}

const failures = () => stage.replica.lines.filter((line) => line.includes('loop.failed'));

describe('lanes that were written to', () => {
  it('are all claimed, with the size decided at the start, when a run size grows while a lease is awaited', async () => {
    const names = ['steady', 'grown', 'growing'];
    const receivers: Receiver[] = [];
    for (const name of names) receivers.push(await stage.listen(name, { lanes: 1 }));
    const sizes = stage.replica.app.nest.get(RunSizes);
    const [, grown, growing] = await Promise.all(names.map((name) => stage.numberOf(name)));
    sizes.next(grown!, 32, 1);
    sizes.next(growing!, 40, 1);
    const requests = watchLeases((_, nth) => {
      if (nth !== 1) return;
      sizes.next(grown!, 128, 1);
      sizes.next(growing!, 128, 1);
    });
    const lanes = await insertDeliveries(...names);
    stage.replica.app.nest.get(Wakeups).wake('outbox', new Set(lanes));
    await until(() => receivers.every(({ received }) => received.length === 1));
    const asked = requests.map(({ hint, maxLanes, maxRows }) => ({ hint, maxLanes, maxRows }));
    expect(asked.slice(0, 3)).toEqual([
      { hint: [lanes[0]], maxLanes: 1, maxRows: 32 },
      { hint: [lanes[1]], maxLanes: 1, maxRows: 128 },
      { hint: [lanes[2]], maxLanes: 1, maxRows: 160 },
    ]);
    expect(failures()).toEqual([]);
  });

  it('are retried when a lease fails, without waiting for the next scan of all lanes', async () => {
    const names = ['first', 'second'];
    const receivers: Receiver[] = [];
    for (const name of names) receivers.push(await stage.listen(name, { lanes: 1 }));
    stage.replica.app.nest.get(RunSizes).next(await stage.numberOf('second'), 32, 1);
    watchLeases((_, nth) => {
      if (nth === 1) throw new Error('planted');
    });
    stage.replica.app.nest.get(Wakeups).wake('outbox', new Set(await insertDeliveries(...names)));
    await until(() => receivers.every(({ received }) => received.length === 1));
    expect(failures()).toHaveLength(1);
  });
});
