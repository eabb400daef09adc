import type { Plant } from './plants.ts';
import {
  type Around,
  answeredTooEarly,
  claimedTooLate,
  frozenHolder,
  overtaking,
  type Scene,
  underLoad,
  withoutUniqueness,
} from './scenes.ts';
import type { Violation } from './violation.ts';

interface Planted {
  readonly name: string;
  readonly scene: Scene;
  /** What is taken away. */
  readonly without: readonly Plant[];
  /** What is taken away besides in the control run too: another guard that would do alone. */
  readonly control: readonly Plant[];
}

/**
 * Each guard, and the scene that shows what it is for. Fence and finish check guard against the same: each is taken
 * away where the other is gone already, and each must do alone.
 */
export const PLANTED: readonly Planted[] = [
  { name: 'fence', scene: frozenHolder, without: ['fence', 'finishCheck'], control: ['finishCheck'] },
  { name: 'finish-check', scene: frozenHolder, without: ['finishCheck', 'fence'], control: ['fence'] },
  { name: 'second-snapshot', scene: claimedTooLate, without: ['door', 'secondSnapshot'], control: ['door'] },
  { name: 'dedupe', scene: withoutUniqueness, without: ['dedupe'], control: [] },
  { name: 'commit-before-answer', scene: answeredTooEarly, without: ['commitBeforeAnswer'], control: [] },
  { name: 'order', scene: underLoad, without: ['order'], control: [] },
  { name: 'hold', scene: overtaking, without: ['hold'], control: [] },
  {
    name: 'claim-size',
    scene: underLoad,
    without: ['restlessSizes', 'claimSize'],
    control: ['restlessSizes'],
  },
  { name: 'signature', scene: underLoad, without: ['signature'], control: [] },
];

export interface PlantedResult {
  readonly name: string;
  readonly noticed: boolean;
  /** With how often. */
  readonly caughtBy: readonly string[];
  /** What was violated with the guard in place; must be nothing. */
  readonly control: readonly string[];
}

const controls = new Map<string, readonly Violation[]>();

export async function runPlanted(planted: Planted, around: Around): Promise<PlantedResult> {
  const { name, scene, without, control } = planted;
  const same = `${scene.name} ${control.join()}`;
  const before = controls.get(same) ?? (await scene(control, around));
  controls.set(same, before);
  const violations = await scene(without, around);
  const caughtBy = summary(violations);
  around.say(`  ${caughtBy.join('; ') || 'nothing was violated'}`);
  return { name, noticed: violations.length > 0, caughtBy, control: summary(before) };
}

function summary(violations: readonly Violation[]): string[] {
  const counts = new Map<string, number>();
  for (const { check } of violations) counts.set(check, (counts.get(check) ?? 0) + 1);
  return [...counts].map(([check, n]) => `${check} (${n})`);
}
