import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ok, type Received } from '../support/receiver.ts';
import { type Replica, startReplicaProcess } from '../support/replicas.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

const SECRETS_KEYS = `k1=${'A'.repeat(43)}=`;

const LEASE_MS = 2_000;

let cluster: TestCluster;

beforeAll(async () => {
  const settings = { ROLES: 'api,inbox', DRAIN_TIMEOUT: '1s', SECRETS_KEYS };
  cluster = await TestCluster.open(settings, 1, { outboxLease: LEASE_MS });
});
afterAll(() => cluster.close());

/** A replica that can be killed; it knows the existing listeners. */
async function startChild(): Promise<Replica> {
  const replica = startReplicaProcess({
    databaseUrl: cluster.database.url,
    settings: { ROLES: 'outbox', EGRESS_ALLOW: '127.0.0.0/8', SECRETS_KEYS },
    overrides: { outboxLease: LEASE_MS },
  });
  await replica.ready;
  return replica;
}

const data = (received: readonly Received[]) => received.map(({ body }) => body.data);

describe('a replica that is killed between sending and recording it', () => {
  it('E7: another continues within the lease and a second; the repeat has the same id and a reason, nothing else is repeated', async () => {
    const receiver = await cluster.listen('killed', { timeout: '1s' });
    const child = await startChild();
    const before = await cluster.post(...[1, 2, 3].map((n) => ({ type: 'killed/x', key: 'k', payload: n })));
    await cluster.delivery(before[2], 'finished');

    // The receiver has the request; its response reaches no one.
    receiver.respond = (received, response, count) => {
      child.signal('SIGKILL');
      ok(received, response, count);
    };
    const after = await cluster.post(...[4, 5, 6].map((n) => ({ type: 'killed/x', key: 'k', payload: n })));
    await until(() => receiver.received.length === 4);
    expect(await child.ended).toBe('SIGKILL');

    receiver.respond = ok;
    await cluster.start({ ROLES: 'outbox' });
    await cluster.delivery(after[2], 'finished');
    expect(data(receiver.received)).toEqual([1, 2, 3, 4, 4, 5, 6]);
    const [first, second] = receiver.received.slice(3, 5);
    expect(second!.headers['webhook-id']).toBe(first!.headers['webhook-id']);

    const [repeated] = await cluster.deliveries(after[0]!);
    expect(repeated).toMatchObject({ status: 'finished', attempt: 1 });
    expect(repeated!.attempts).toEqual([
      expect.objectContaining({ attempt: 1, error: expect.stringContaining('outcome unknown') }),
      expect.objectContaining({ attempt: 1, status: 204, error: null }),
    ]);
    for (const id of before) expect((await cluster.deliveries(id))[0]!.attempts).toHaveLength(1);
  });
});

describe('a database that crashed and lost the last claims', () => {
  it('causes a repeat with a recorded reason: the sender records that the lane was lost', async () => {
    const receiver = await cluster.listen('forgotten');
    let succeed: (() => void) | undefined;
    receiver.respond = (received, response, count) => {
      succeed = () => ok(received, response, count);
    };
    const [id] = await cluster.post({ type: 'forgotten/x', key: 'k', payload: 1 });
    await until(() => succeed !== undefined);
    receiver.respond = ok;
    await cluster.database.query(
      `UPDATE outbox SET status = 'pending', attempt = 0 WHERE status = 'processing'`,
    );
    await cluster.database.query(
      `UPDATE lane SET token = NULL, leased_until = '-infinity' WHERE queue = 'outbox' AND token IS NOT NULL`,
    );
    await cluster.delivery(id, 'finished');
    expect(receiver.received).toHaveLength(2);

    succeed!();
    await until(async () => (await cluster.deliveries(id!))[0]!.attempts.length === 2);
    const [repeated] = await cluster.deliveries(id!);
    expect(repeated!.attempts).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ status: 204, error: expect.stringContaining('had lost the lane') }),
        expect.objectContaining({ status: 204, error: null }),
      ]),
    );
  });
});
