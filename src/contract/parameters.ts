import { Problem } from '../http/problems.ts';

/** A parameter that takes one of a few words. */
export function choiceOf<const Choice extends string>(
  name: string,
  value: string | undefined,
  choices: readonly Choice[],
): Choice | undefined {
  if (value === undefined || choices.includes(value as Choice)) return value as Choice | undefined;
  throw new Problem('invalid', `${name} must be one of ${choices.join(', ')}.`);
}

/** A parameter that is `true` or `false`; false when it is absent. */
export function flagOf(name: string, value: string | undefined): boolean {
  return choiceOf(name, value, ['true', 'false']) === 'true';
}
