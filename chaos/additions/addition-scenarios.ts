import { consumingScenario } from '../consuming-scenario.ts';
import type { GuardScenario } from '../guard-scenarios.ts';

const ROUNDS = 3;
/** Longer than a replica takes to learn of a new topic by itself. */
const TAKES_MS = 1_200;

/**
 * One replica creates a topic; the other one, which does not know it yet, applies messages: some for so long that it learns of
 * the topic meanwhile, and some at once. Then the same with a queue. One after the other: a replica that notices that it
 * does not know a queue reads the topics, too, so that one guard would hide that the other is missing.
 */
export const createdMeanwhile: GuardScenario = (without, context) =>
  consumingScenario(without, context, async (driver) => {
    for (let round = 0; round < ROUNDS; round++) {
      await driver.additions.addTopic(`late-${round}`);
      await driver.postToSecond([`slow-${round}-0`, `slow-${round}-1`], { takesMs: TAKES_MS });
      await driver.postToSecond([`quick-${round}-0`, `quick-${round}-1`], {});
      await driver.waitUntilApplied();
      await driver.additions.addQueue(`late-${round}`, true);
      await driver.postToSecond([`quick-${round}-2`, `quick-${round}-3`], {});
      await driver.waitUntilApplied();
    }
  });
