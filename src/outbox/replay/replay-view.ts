import type { ReplayProgress } from './replay-store.ts';
import type { ReplayView } from './replays.openapi.ts';

/** A replay as the API shows it. */
export function replayView({
  id,
  matched,
  selecting,
  waiting,
  dead,
  filter,
  ...row
}: ReplayProgress): ReplayView {
  const closed = selecting ? matched : row.closed;
  const isDone = !selecting && row.done_at !== null && waiting === 0;
  return {
    id: String(id),
    listener: row.listener,
    status: isDone ? (row.cancelled_at ? 'cancelled' : 'finished') : 'running',
    selecting,
    matched,
    sent: matched - closed - waiting - dead,
    dead,
    waiting: closed + waiting,
    filter,
    createdAt: row.created_at,
    createdBy: row.created_by,
    ...(row.cancelled_at ? { cancelledAt: row.cancelled_at, cancelledBy: row.cancelled_by } : {}),
  };
}
