/** Formats a time as ISO 8601 in UTC, for JSON that PostgreSQL builds: its default is the time zone of the session. */
export function utc(time: string): string {
  return `to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
}
