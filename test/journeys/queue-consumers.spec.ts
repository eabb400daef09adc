import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Acknowledgement, PulledMessage, TestConsumer } from '../support/consumer.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { TestQueue } from '../support/test-queue.ts';

const LEASE_MS = 1_000;
const KEYS = ['a', 'b', 'c', 'd', 'e', 'f'];

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await TestCluster.open({}, 2);
});
afterAll(() => cluster.close());

interface HandOut {
  readonly message: PulledMessage;
  /** The request was sent then: the lease does not end before that and LEASE_MS. */
  readonly sentAt: number;
  /** A request to settle it was sent. */
  settling: boolean;
}

/** What consumers saw, and everything in it that must not happen. */
class Witness {
  readonly violations: string[] = [];
  private readonly latest = new Map<string, HandOut>();
  /** By key, the number up to which all messages are over. */
  private readonly over = new Map<string, number>();

  handedOut(message: PulledMessage, sentAt: number): HandOut {
    const { key, sequence, attempt } = message;
    const before = this.latest.get(key);
    if (before && !before.settling && Date.now() < before.sentAt + LEASE_MS)
      this.violations.push(
        `${key}${sequence} (attempt ${attempt}) while ${key}${before.message.sequence} is leased`,
      );
    if (sequence !== (this.over.get(key) ?? 0) + 1)
      this.violations.push(`${key}${sequence} after ${key}${this.over.get(key) ?? 0}`);
    const handOut = { message, sentAt, settling: false };
    this.latest.set(key, handOut);
    return handOut;
  }

  /** Called before the outcome is known to others: the next of the key may be handed out before the response arrives. */
  settling(handOut: HandOut, ends: boolean): void {
    handOut.settling = true;
    if (ends) this.over.set(handOut.message.key, handOut.message.sequence);
  }

  /** The request had no effect. */
  fenced({ message }: HandOut, ended: boolean): void {
    if (ended && this.over.get(message.key) === message.sequence)
      this.over.set(message.key, message.sequence - 1);
  }

  get total(): number {
    return [...this.over.values()].reduce((sum, sequence) => sum + sequence, 0);
  }
}

type Action = 'acknowledge' | 'retry' | 'reject' | 'abandon';

function randomAction(): Action {
  const chance = Math.random();
  if (chance < 0.7) return 'acknowledge';
  if (chance < 0.88) return 'retry';
  return chance < 0.95 ? 'reject' : 'abandon';
}

async function consume(consumer: TestConsumer, witness: Witness, isDone: () => boolean): Promise<void> {
  while (!isDone()) {
    const sentAt = Date.now();
    const messages = await consumer.pull({ max: 1 + Math.floor(Math.random() * 6), wait: '100ms' });
    const handOuts = messages.map((message) => witness.handedOut(message, sentAt));
    const chosen = handOuts.map((handOut) => [handOut, randomAction()] as const);
    const kept = chosen.filter(
      ([{ sentAt: at }, action]) => action !== 'abandon' && Date.now() < at + LEASE_MS / 2,
    );
    if (kept.length === 0) continue;
    for (const [handOut, action] of kept) witness.settling(handOut, action !== 'retry');
    const leases = (wanted: Action) => kept.filter(([, action]) => action === wanted);
    const body: Acknowledgement = {
      acknowledge: leases('acknowledge').map(([{ message }]) => message.lease),
      retry: leases('retry').map(([{ message }]) => ({
        lease: message.lease,
        after: `${Math.floor(Math.random() * 40)}ms`,
      })),
      reject: leases('reject').map(([{ message }]) => ({ lease: message.lease, reason: 'unlucky' })),
    };
    const outcomes = await consumer.settle(body);
    const inOrder = [...leases('acknowledge'), ...leases('retry'), ...leases('reject')];
    for (const [index, [handOut, action]] of inOrder.entries())
      if (outcomes[index] !== 'done') witness.fenced(handOut, action !== 'retry');
  }
}

describe('many consumers at two replicas, some of which fail, retry, reject or forget messages', () => {
  it.each([
    ['more messages of each key than one scan reads', 60],
    ['few messages of each key', 8],
  ])('get each key in order, and nothing that somebody else has: %s', async (_, perKey) => {
    const name = `many-${perKey}`;
    const queue = await TestQueue.open(cluster, name, {
      lease: `${LEASE_MS}ms`,
      attempts: 1_000,
      retrySchedule: ['1ms'],
    });
    const keys = Array.from({ length: perKey * KEYS.length }, (__, n) => KEYS[n % KEYS.length]!);
    await queue.post(...keys);
    const witness = new Witness();
    const isDone = () => witness.total === keys.length;
    const consumers = [0, 1, 2, 3, 4].map((n) => queue.consumers[n % 2]!);
    await Promise.all(consumers.map((consumer) => consume(consumer, witness, isDone)));
    expect(witness.violations).toEqual([]);
    const { finished = 0, dead = 0, ...others } = await cluster.counts(name);
    expect([finished + dead, others]).toEqual([keys.length, {}]);
    expect(await queue.inFlight()).toBe(0);
  });
});
