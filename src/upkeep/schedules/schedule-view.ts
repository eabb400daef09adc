import { Cron } from './cron.ts';
import type { ScheduleRow } from './schedule-store.ts';
import type { ScheduleView } from './schedules.openapi.ts';

/** A schedule as the API returns it, with the payload as the text it was sent as. */
export function scheduleJson(row: ScheduleRow): string {
  const rest: ScheduleView = {
    name: row.name,
    cron: row.cron,
    timezone: row.timezone,
    type: row.type,
    key: row.key,
    onMissed: row.on_missed,
    paused: row.paused,
    nextAt: row.paused ? null : row.next_at,
    nextTicks: nextTicks(row),
    lastAt: row.last_at,
    createdAt: row.created_at,
    createdBy: row.created_by,
    updatedAt: row.updated_at,
    updatedBy: row.updated_by,
  };
  return `${JSON.stringify(rest).slice(0, -1)},"payload":${row.payload}}`;
}

const MAX_TICKS = 3;

/** None while it is paused, nor if this replica cannot parse it; fewer if it does not fire that often in the next years. */
function nextTicks({ cron, timezone, paused, next_at }: ScheduleRow): Date[] {
  const parsed = paused ? undefined : Cron.parse(cron, timezone);
  if (parsed?.kind !== 'valid') return [];
  const ticks = [next_at];
  try {
    while (ticks.length < MAX_TICKS) ticks.push(parsed.cron.after(ticks.at(-1)!));
  } catch {
    // The library searches a few years ahead, and throws then.
  }
  return ticks;
}
