/** A time as the rest of an answer has it, where PostgreSQL writes the JSON: by itself it would take the session's time zone. */
export function utc(time: string): string {
  return `to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
}
