import { faultyFields, Problem } from './problems.ts';

/** ISO 8601 knows weeks and days of the year, which PostgreSQL does not; Date.parse alone would take 24:00 for an hour. */
const RFC_3339 = /^\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d(\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/i;

/** What is wrong with a text that is no time, as the rest of a sentence about it. */
export const NO_TIME = 'must be a time as in RFC 3339, such as 2026-01-31T12:00:00Z';

/** RFC 3339 → the same moment in UTC; PostgreSQL keeps microseconds, so a finer fraction is cut there. */
export function utcOf(text: string): string | undefined {
  const match = RFC_3339.exec(text);
  const at = match ? Date.parse(text.toUpperCase()) : Number.NaN;
  if (!match || Number.isNaN(at)) return undefined;
  // Date.parse takes 31 February for 3 March.
  const day = text.slice(0, 10);
  if (!new Date(`${day}T00:00:00Z`).toISOString().startsWith(day)) return undefined;
  const utc = new Date(at).toISOString();
  // An offset can carry a year that looks fine into one that PostgreSQL does not write so.
  if (!/^(?!0000)\d{4}-/.test(utc)) return undefined;
  return `${utc.slice(0, 19)}${(match[1] ?? '').slice(0, 7)}Z`;
}

/** A time in the query of a request. */
export function timeParameter(name: string, text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const time = utcOf(text);
  if (time === undefined) throw new Problem('invalid', `${name} ${NO_TIME}.`);
  return time;
}

/** A time in the body of a request. */
export function timeOf(text: string, pointer: string): string {
  const time = utcOf(text);
  if (time === undefined) throw faultyFields([{ pointer, detail: NO_TIME }]);
  return time;
}
