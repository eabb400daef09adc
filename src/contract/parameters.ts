import { Problem } from '../http/problems.ts';

/** Checks a query parameter that takes one of a fixed set of values; throws a 422 problem for any other value. */
export function choiceOf<const Choice extends string>(
  name: string,
  value: string | undefined,
  choices: readonly Choice[],
): Choice | undefined {
  if (value === undefined || choices.includes(value as Choice)) return value as Choice | undefined;
  throw new Problem('invalid', `${name} must be one of ${choices.join(', ')}.`);
}

/** Reads a query parameter that takes `true` or `false`. Default: false. */
export function flagOf(name: string, value: string | undefined): boolean {
  return choiceOf(name, value, ['true', 'false']) === 'true';
}
