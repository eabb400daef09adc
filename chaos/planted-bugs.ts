import { createdMeanwhile } from './additions/addition-scenarios.ts';
import type { Bug } from './bugs.ts';
import { deadOwner, handOver, lateCommit } from './groups/group-scenarios.ts';
import {
  appendingWriters,
  earlyResponse,
  frozenLeaseHolder,
  type GuardScenario,
  lateClaim,
  overtaking,
  plainLoad,
  type ScenarioContext,
  withoutUniqueIndex,
} from './guard-scenarios.ts';
import { deadWorker, lateAcknowledgement, retryLater, twoOfAKey } from './queues/queue-scenarios.ts';
import { heldBehind, replayedEffects, switchInFlight } from './rebuilds/rebuild-scenarios.ts';
import type { Violation } from './violation.ts';

interface PlantedBug {
  readonly name: string;
  readonly scenario: GuardScenario;
  /** What is removed. */
  readonly without: readonly Bug[];
  /** What is removed in the control run, too: another guard that would be sufficient alone. */
  readonly control: readonly Bug[];
}

/**
 * Each guard, and the scenario that shows what it is for. Fence and finish check guard against the same error: each is
 * removed where the other is missing already, and each must be sufficient alone.
 */
export const PLANTED: readonly PlantedBug[] = [
  { name: 'fence', scenario: frozenLeaseHolder, without: ['fence', 'finishCheck'], control: ['finishCheck'] },
  {
    name: 'finish-check',
    scenario: frozenLeaseHolder,
    without: ['finishCheck', 'fence'],
    control: ['fence'],
  },
  {
    name: 'second-snapshot',
    scenario: lateClaim,
    without: ['leaseGate', 'secondSnapshot'],
    control: ['leaseGate'],
  },
  { name: 'dedupe', scenario: withoutUniqueIndex, without: ['dedupe'], control: [] },
  { name: 'commit-before-response', scenario: earlyResponse, without: ['commitBeforeResponse'], control: [] },
  { name: 'order', scenario: plainLoad, without: ['order'], control: [] },
  { name: 'hold', scenario: overtaking, without: ['hold'], control: [] },
  {
    name: 'claim-size',
    scenario: plainLoad,
    without: ['changingRunSizes', 'claimSize'],
    control: ['changingRunSizes'],
  },
  { name: 'signature', scenario: plainLoad, without: ['signature'], control: [] },
  { name: 'lease-fence', scenario: lateAcknowledgement, without: ['leaseFence'], control: [] },
  { name: 'key-in-flight', scenario: twoOfAKey, without: ['keyInFlight'], control: [] },
  { name: 'lease-expiry', scenario: deadWorker, without: ['leaseExpiry'], control: [] },
  { name: 'retry-hold', scenario: retryLater, without: ['retryHold'], control: [] },
  { name: 'offset-counter', scenario: appendingWriters, without: ['offsetSequence'], control: [] },
  { name: 'commit-fence', scenario: lateCommit, without: ['commitFence'], control: [] },
  { name: 'drain', scenario: handOver, without: ['drain'], control: [] },
  { name: 'hand-back', scenario: deadOwner, without: ['handBack'], control: [] },
  { name: 'session', scenario: deadOwner, without: ['session'], control: [] },
  { name: 'topics-when-written', scenario: createdMeanwhile, without: ['topicsReadEarly'], control: [] },
  { name: 'topic-revision', scenario: createdMeanwhile, without: ['topicRevision'], control: [] },
  { name: 'listener-revision', scenario: createdMeanwhile, without: ['listenerRevision'], control: [] },
  { name: 'switch-fence', scenario: switchInFlight, without: ['switchFence'], control: [] },
  { name: 'catch-up-order', scenario: heldBehind, without: ['catchUpOrder'], control: [] },
  { name: 'suppressed-send', scenario: replayedEffects, without: ['suppressedSend'], control: [] },
  { name: 'suppressed-fan-out', scenario: replayedEffects, without: ['suppressedFanOut'], control: [] },
];

export interface PlantedResult {
  readonly name: string;
  readonly noticed: boolean;
  /** Each check with its number of violations. */
  readonly caughtBy: readonly string[];
  /** Violations with the guard in place; must be empty. */
  readonly control: readonly string[];
}

const controls = new Map<string, readonly Violation[]>();

export async function runPlanted(planted: PlantedBug, context: ScenarioContext): Promise<PlantedResult> {
  const { name, scenario, without, control } = planted;
  const controlName = `${scenario.name} ${control.join()}`;
  const before = controls.get(controlName) ?? (await scenario(control, context));
  controls.set(controlName, before);
  const violations = await scenario(without, context);
  const caughtBy = summary(violations);
  context.log(`  ${caughtBy.join('; ') || 'nothing was violated'}`);
  return { name, noticed: violations.length > 0, caughtBy, control: summary(before) };
}

function summary(violations: readonly Violation[]): string[] {
  const counts = new Map<string, number>();
  for (const { check } of violations) counts.set(check, (counts.get(check) ?? 0) + 1);
  return [...counts].map(([check, n]) => `${check} (${n})`);
}
