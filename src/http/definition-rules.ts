import { ValidateBy } from 'class-validator';
import { formatDuration, parseDuration } from '../config/duration.ts';

/** Returns what is wrong with a value, as the rest of a sentence about it; undefined: nothing. */
type Rule = (value: unknown) => string | undefined;

/** One rule, one message: several rules of the library would report one missing field five times. */
export function Must(rule: Rule): PropertyDecorator {
  return ValidateBy({
    name: 'must',
    validator: {
      validate: (value) => rule(value) === undefined,
      defaultMessage: (args) => (args?.value === undefined ? 'is required' : rule(args.value)!),
    },
  });
}

export function numberFrom(min: number, max: number): Rule {
  return (value) =>
    typeof value === 'number' && value >= min && value <= max
      ? undefined
      : `must be a number from ${min} to ${max}`;
}

export function wholeFrom(min: number, max: number): Rule {
  return (value) =>
    Number.isInteger(value) && (value as number) >= min && (value as number) <= max
      ? undefined
      : `must be a whole number from ${min} to ${max}`;
}

export function listOf(min: number, max: number): Rule {
  const size = min === 0 ? `at most ${max}` : `${min} to ${max}`;
  return (value) =>
    Array.isArray(value) && value.length >= min && value.length <= max
      ? undefined
      : `must be a list of ${size}`;
}

export function anObject(value: unknown): string | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? undefined
    : 'must be an object';
}

export function aText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? undefined : 'must be a non-empty string';
}

export function durationFrom(minMs: number, maxMs: number): Rule {
  return (value) => {
    const ms = typeof value === 'string' ? parseDuration(value) : undefined;
    return ms !== undefined && ms >= minMs && ms <= maxMs
      ? undefined
      : `must be a duration from ${formatDuration(minMs)} to ${formatDuration(maxMs)}, such as "30s"`;
  };
}
