/** Numbers of dead letters at which an alert is raised, in ascending order, for one queue or for all others. */
export interface AlertThresholds {
  /** `inbox`, the name of a listener, or `group/` and the name of a group; undefined: every other queue. */
  readonly queue: string | undefined;
  readonly thresholds: readonly number[];
}

export const DEAD_LETTER_ALERTS_FORM =
  'thresholds, optionally followed by thresholds for single queues: `1+5,inbox=1,crm=10+100,group/billing=1`';

export function parseDeadLetterAlerts(raw: string): readonly AlertThresholds[] | undefined {
  const parts = raw.split(',').map((part) => {
    const match = /^(?:((?:group\/)?[A-Za-z0-9][A-Za-z0-9_.-]{0,62})=)?(\d{1,6}(?:\+\d{1,6})*)$/.exec(
      part.trim(),
    );
    if (!match) return undefined;
    const thresholds = match[2]!.split('+').map(Number);
    const ascending = thresholds.every((one, index) => one > (thresholds[index - 1] ?? 0));
    return ascending ? { queue: match[1], thresholds } : undefined;
  });
  const queues = new Set(parts.map((part) => part?.queue));
  return parts.every((part) => part !== undefined) && queues.size === parts.length ? parts : undefined;
}
