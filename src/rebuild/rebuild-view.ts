import type { RebuildView } from './read-models.openapi.ts';
import type { Status } from './rebuild.ts';
import type { RebuildRow } from './rebuild-statements.ts';

export function rebuildView(row: RebuildRow): RebuildView {
  const done = row.done ?? 0;
  const perSecond = rateOf(row);
  const waitsFor = waitsForOf(row);
  const left = Math.max(0, (row.total ?? 0) - done);
  return {
    id: String(row.id),
    model: row.model,
    status: row.status,
    paused: row.paused,
    schema: row.target,
    options: row.options,
    total: row.total ?? 0,
    done,
    leftOut: row.left_out,
    leftOutMessages: row.left_out_messages.map((one) => ({ ...one, at: new Date(one.at) })),
    createdAt: row.created_at,
    createdBy: row.created_by,
    ...(perSecond ? { perSecond, secondsLeft: left / perSecond } : {}),
    ...(waitsFor ? { waitsFor } : {}),
    ...(row.failure ? { failure: failureView(row.failure) } : {}),
    ...(row.diff ? { diff: row.diff } : {}),
    ...(row.switched_at ? { switchedAt: row.switched_at, pauseMs: row.pause_ms ?? 0 } : {}),
    ...(row.ended_at ? { endedAt: row.ended_at } : {}),
  };
}

/** Undefined: it is not replaying, or makes no progress. */
function rateOf({ status, paused, recent_done, recent_seconds }: RebuildRow): number | undefined {
  if (status !== 'replaying' || paused || !recent_done || !recent_seconds) return undefined;
  return recent_done > 0 && recent_seconds > 0 ? recent_done / recent_seconds : undefined;
}

/** Where replicas work on it without being asked. */
const AT_WORK: readonly Status[] = ['building', 'replaying', 'comparing', 'ready', 'switching'];

function waitsForOf({ status, paused, has_migrations, has_version, waits_for }: RebuildRow): string | null {
  if (has_version || paused || !AT_WORK.includes(status)) return waits_for;
  const missing = has_migrations ? 'runs this version of its denormalizers' : 'has its migrations';
  return `no replica with the role "inbox" ${missing}: start one, or cancel it and start another rebuild`;
}

function failureView({ error = '', id, source, type, key }: NonNullable<RebuildRow['failure']>) {
  return id === undefined ? { error } : { error, id, source, type, key };
}
