import { invalidFields, Problem } from './problems.ts';

/** ISO 8601 has week dates and ordinal dates, which PostgreSQL does not read; Date.parse alone would accept 24:00. */
const RFC_3339 = /^\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d(\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/i;

/** The rule for a time, as the predicate of a sentence. */
export const TIME_RULE = 'must be an RFC 3339 time, such as 2026-01-31T12:00:00Z';

/** Converts an RFC 3339 time to UTC. PostgreSQL keeps microseconds, so a finer fraction is cut off. */
export function utcOf(text: string): string | undefined {
  const match = RFC_3339.exec(text);
  const at = match ? Date.parse(text.toUpperCase()) : Number.NaN;
  if (!match || Number.isNaN(at)) return undefined;
  // Date.parse reads 31 February as 3 March.
  const day = text.slice(0, 10);
  if (!new Date(`${day}T00:00:00Z`).toISOString().startsWith(day)) return undefined;
  const utc = new Date(at).toISOString();
  // The offset can move a valid year to one that PostgreSQL does not read in this form (0000, 10000).
  if (!/^(?!0000)\d{4}-/.test(utc)) return undefined;
  return `${utc.slice(0, 19)}${(match[1] ?? '').slice(0, 7)}Z`;
}

/** Reads a time from a query parameter. */
export function timeParameter(name: string, text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const time = utcOf(text);
  if (time === undefined) throw new Problem('invalid', `${name} ${TIME_RULE}.`);
  return time;
}

/** Reads a time from a field of the body. */
export function timeOf(text: string, pointer: string): string {
  const time = utcOf(text);
  if (time === undefined) throw invalidFields([{ pointer, detail: TIME_RULE }]);
  return time;
}
