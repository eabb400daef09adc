import type { ScheduleRow } from './schedule-store.ts';

/** A schedule as the API shows it; the payload goes out as the text it came in as. */
export function scheduleJson(row: ScheduleRow): string {
  const rest = JSON.stringify({
    name: row.name,
    cron: row.cron,
    timezone: row.timezone,
    type: row.type,
    key: row.key,
    onMissed: row.on_missed,
    paused: row.paused,
    nextAt: row.paused ? null : row.next_at,
    lastAt: row.last_at,
    createdAt: row.created_at,
    createdBy: row.created_by,
    updatedAt: row.updated_at,
    updatedBy: row.updated_by,
  });
  return `${rest.slice(0, -1)},"payload":${row.payload}}`;
}
