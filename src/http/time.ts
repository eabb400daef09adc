import { Problem } from './problems.ts';

const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/i;

/** RFC 3339, as everywhere: ISO 8601 knows weeks and days of the year, which PostgreSQL does not. */
export function utcOf(text: string): string | undefined {
  const ms = RFC_3339.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString();
}

/** A time in the query of a request. */
export function timeParameter(name: string, text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const time = utcOf(text);
  if (time === undefined)
    throw new Problem('invalid', `${name} must be a time as in RFC 3339, such as 2026-01-31T12:00:00Z.`);
  return time;
}
