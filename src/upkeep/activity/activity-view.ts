import { p95Ms } from '../../telemetry/activity.ts';
import type { Series } from './activity-store.ts';

type Points = (number | null)[];

/** Series as the API shows them: one array per measure, with null where no replica reported. */
export function activityView({ from, to, totals, listeners, groups }: Series, stepSeconds: number) {
  const count = Math.round((to.getTime() - from.getTime()) / 1000 / stepSeconds);
  const reported = new Set(totals.map(({ step }) => step));
  const none = (): Points => Array.from({ length: count }, (_, step) => (reported.has(step) ? 0 : null));
  const set = (points: Points, step: number, value: number | null) => {
    if (step >= 0 && step < count) points[step] = value;
  };

  const inbox = { accepted: none(), applied: none(), failed: none(), dead: none() };
  for (const { step, ...values } of totals)
    for (const [name, points] of Object.entries(inbox)) set(points, step, values[name as keyof typeof inbox]);

  const ofListeners = new Map<string, { delivered: Points; failed: Points; p95Ms: Points }>();
  for (const { step, name, delivered, failed, durations } of listeners) {
    const points = known(ofListeners, name, () => ({
      delivered: none(),
      failed: none(),
      p95Ms: Array.from({ length: count }, () => null) as Points,
    }));
    set(points.delivered, step, delivered);
    set(points.failed, step, failed);
    set(points.p95Ms, step, p95Ms(durations));
  }

  const ofGroups = new Map<string, Points>();
  for (const { step, name, committed } of groups) set(known(ofGroups, name, none), step, committed);

  const timeOf = (step: number) => new Date(from.getTime() + step * stepSeconds * 1000).toISOString();
  return {
    from,
    to,
    stepSeconds,
    times: Array.from({ length: count }, (_, step) => timeOf(step)),
    inbox,
    listeners: sorted(ofListeners).map(([name, points]) => ({ name, ...points })),
    groups: sorted(ofGroups).map(([name, committed]) => ({ name, committed })),
  };
}

function known<Value>(map: Map<string, Value>, name: string, create: () => Value): Value {
  const value = map.get(name) ?? create();
  map.set(name, value);
  return value;
}

function sorted<Value>(map: ReadonlyMap<string, Value>): [string, Value][] {
  return [...map].sort(([a], [b]) => (a < b ? -1 : 1));
}
