import { setTimeout as pause } from 'node:timers/promises';
import { type ConsumingDriver, consumingScenario } from '../consuming-scenario.ts';
import type { GuardScenario } from '../guard-scenarios.ts';
import { QueueClient, type Verdict } from './queue-client.ts';
import type { PulledMessage } from './queue-history.ts';
import { PULL_LEASE_MS } from './queue-terms.ts';
import { isRejected } from './worker-rules.ts';

const QUEUE = 'jobs';
const RETRY_MS = 1_500;

/** A worker freezes with messages; another one gets them; the first one resumes and acknowledges them. */
export const lateAcknowledgement: GuardScenario = (without, context) =>
  consumingScenario(without, context, async (driver) => {
    const first = client(driver, 'first');
    const messages = await pullSome(first);
    await pause(PULL_LEASE_MS + 500);
    await pullSome(client(driver, 'second'));
    await first.settle(messages.map(acknowledged));
  });

/** Two workers pull while more than one message of each key waits. */
export const twoOfAKey: GuardScenario = (without, context) =>
  consumingScenario(without, context, async (driver) => {
    await driver.post('key-m0', 'key-m1', 'key-m2');
    const first = client(driver, 'first');
    const messages = await pullSome(first);
    const second = client(driver, 'second');
    const others = (await second.pull({ max: 100, waitMs: 300 })) ?? [];
    await second.settle(others.map(settled));
    await first.settle(messages.map(settled));
  });

/** A worker dies with messages. */
export const deadWorker: GuardScenario = (without, context) =>
  consumingScenario(without, context, async (driver) => {
    await pullSome(client(driver, 'first'));
  });

/** A worker asks for its messages again, later. */
export const retryLater: GuardScenario = (without, context) =>
  consumingScenario(without, context, async (driver) => {
    const worker = client(driver, 'first');
    const messages = await pullSome(worker);
    await worker.settle(messages.map(({ lease }) => ({ lease, kind: 'retry', afterMs: RETRY_MS })));
  });

function client({ api, random, workers }: ConsumingDriver, name: string): QueueClient {
  return new QueueClient(api, random, workers.calls, QUEUE, name);
}

async function pullSome(worker: QueueClient): Promise<readonly PulledMessage[]> {
  const messages = await worker.pull({ max: 100, waitMs: 2_000 });
  if (!messages?.length) throw new Error('the worker got no messages');
  return messages;
}

function acknowledged({ lease }: PulledMessage): Verdict {
  return { lease, kind: 'acknowledge' };
}

function settled(message: PulledMessage): Verdict {
  return isRejected(message.id) ? { lease: message.lease, kind: 'reject' } : acknowledged(message);
}
