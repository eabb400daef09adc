import { setTimeout as pause } from 'node:timers/promises';
import { type ConsumingDriver, consumingScenario } from '../consuming-scenario.ts';
import type { GuardScenario } from '../guard-scenarios.ts';
import { rejectionsIn } from './consumer-rules.ts';
import type { ReceivedBatch } from './group-history.ts';
import { SESSION_MS } from './group-terms.ts';
import { Member } from './member.ts';

const GROUP = 'crew';

/** A member freezes with messages; another one gets them; the first one wakes up and commits them; the second one dies. */
export const lateCommit: GuardScenario = (without, context) =>
  consumingScenario(without, context, async (driver) => {
    const first = await join(driver);
    const batches = await poll(first);
    await pause(SESSION_MS + 500);
    await poll(await join(driver));
    // Without rejections: a commit that has some is refused because the member is gone, before its fence counts.
    for (const batch of batches) first.processed(batch, batch.to);
    await first.poll({ max: 10, waitMs: 0, commit: true });
  });

/** A member joins while another one has messages of all partitions in flight. */
export const handOver: GuardScenario = (without, context) =>
  consumingScenario(without, context, async (driver) => {
    const first = await join(driver);
    const batches = await poll(first);
    const second = await join(driver);
    await driver.post(...Array.from({ length: 40 }, (_, n) => `other-${n}`));
    await second.poll({ max: 100, waitMs: 500 });
    process(first, batches);
    await first.commit();
    process(second, await poll(second));
    await second.commit();
    await first.leave();
    await second.leave();
  });

/** A member dies with messages of all partitions in flight. */
export const deadOwner: GuardScenario = (without, context) =>
  consumingScenario(without, context, async (driver) => {
    await poll(await join(driver));
  });

async function join({ api, random, consumers }: ConsumingDriver): Promise<Member> {
  const member = await Member.join(api, random, consumers.calls, GROUP, 'scenario');
  if (!member) throw new Error('the member could not join');
  return member;
}

/** Everything that there is for the member. */
async function poll(member: Member): Promise<readonly ReceivedBatch[]> {
  const polled = await member.poll({ max: 100, waitMs: 2_000 });
  if (typeof polled === 'string') throw new Error(`the poll was ${polled}`);
  return polled;
}

function process(member: Member, batches: readonly ReceivedBatch[]): void {
  for (const batch of batches) member.processed(batch, batch.to, rejectionsIn(batch));
}
