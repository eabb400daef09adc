import type { History } from '../history.ts';
import { nameOfLease } from '../queues/queue-history.ts';
import { type Violation, violation } from '../violation.ts';
import { SCHEDULE } from './operator-history.ts';

const TICK_MS = 1_000;

/** What follows from an operator's actions. */
export function checkOperations(history: History): Violation[] {
  return [...replays(history), ...rulings(history), ...ticks(history)];
}

/** A delivery that a replay made pending is requested, or handed to a worker, later than the replay was created. */
function replays({ operations, deliveries, arrivals, queues }: History): Violation[] {
  const lastMs = new Map<string, number>();
  for (const { delivery, atMs } of arrivals) lastMs.set(delivery, atMs);
  const ids = new Map(deliveries.map(({ id, position }) => [position, id]));
  for (const { doneMs, messages } of queues?.calls ?? [])
    for (const { lease } of messages)
      lastMs.set(ids.get(Number.parseInt(nameOfLease(lease), 10)) ?? '', doneMs);
  const settled = new Set(
    deliveries.filter(({ status }) => ['finished', 'dead'].includes(status)).map(({ id }) => id),
  );
  return operations.replayed
    .filter(({ delivery, createdAtMs }) => settled.has(delivery) && (lastMs.get(delivery) ?? 0) < createdAtMs)
    .map(({ delivery, replay }) =>
      violation('a replayed delivery is sent again', `${delivery} was not sent after replay ${replay}`),
    );
}

/** A message ceases to be a dead letter once for each time that it is revived or discarded; a delivery also by a replay. */
function rulings({ operations, deliveries }: History): Violation[] {
  const { restarted, ruled, replayed } = operations;
  const allowed = new Map<string, number>();
  const allow = (name: string, times: number) => allowed.set(name, (allowed.get(name) ?? 0) + times);
  const positions = new Map(deliveries.map(({ id, position }) => [id, position]));
  for (const { stage, position, times } of ruled) allow(`${stage} ${position}`, times);
  for (const { delivery } of replayed) allow(`outbox ${positions.get(delivery)}`, 1);
  return restarted.flatMap(({ stage, position, times }) => {
    const reasons = allowed.get(`${stage} ${position}`) ?? 0;
    if (times <= reasons) return [];
    const detail = `${position} of the ${stage} ceased to be one ${times} times, for ${reasons} reasons`;
    return [violation('a dead letter starts over once for each revive', detail)];
  });
}

/** There is a message for every second, except while the schedule may have been paused; that none has two is checked elsewhere. */
function ticks({ operations, messages }: History): Violation[] {
  const times = messages
    .filter(({ id }) => id.startsWith(`${SCHEDULE}/`))
    .map(({ id }) => Date.parse(id.slice(SCHEDULE.length + 1)))
    .sort((one, two) => one - two);
  return times.flatMap((time, index) => {
    const before = times[index - 1];
    if (before === undefined || time - before === TICK_MS) return [];
    const paused = operations.schedulePauses.some(({ fromMs, toMs }) => fromMs < time && toMs > before);
    if (paused) return [];
    const detail = `no tick between ${new Date(before).toISOString()} and ${new Date(time).toISOString()}`;
    return [violation('a schedule posts every tick once', detail)];
  });
}
