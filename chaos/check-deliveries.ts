import { requiredIn } from './additions/required.ts';
import type { Arrival, DeliveryRow, History, MessageRow, RunTerms } from './history.ts';
import { type Violation, violation } from './violation.ts';

type Listener = RunTerms['listeners'][number];

/** Two seconds; a replica may be frozen, or without its database, for some seconds more. */
const ROTATED_WITHIN_MS = 15_000;

/** From the read model to the receivers. */
export function checkDeliveries(history: History): Violation[] {
  const names = new Set(history.terms.listeners.map(({ name }) => name));
  const webhooks = {
    ...history,
    deliveries: history.deliveries.filter(({ listener }) => names.has(listener)),
  };
  const checks = [settled, orderPerKey, signatures, bytes, repeats, attempts];
  return [...fanOut(history), ...checks.flatMap((one) => one(webhooks))];
}

/** Exactly one delivery per finished message and listener of its type, and no others; a late listener may miss earlier ones. */
function fanOut(history: History): Violation[] {
  const { messages, deliveries, terms } = history;
  const isRequired = requiredIn(history);
  const listeners = [
    ...terms.listeners.map((one) => ({ ...one, sinceMs: undefined })),
    ...(terms.queues ?? []),
  ];
  const counts = new Map<string, number>();
  for (const { message, listener } of deliveries) {
    counts.set(`${message} ${listener}`, (counts.get(`${message} ${listener}`) ?? 0) + 1);
  }
  return messages.flatMap((message) => {
    const { position, id, type, status } = message;
    return listeners.flatMap(({ name, types, sinceMs }) => {
      const wanted = status === 'finished' && types.includes(type) ? 1 : 0;
      const actual = counts.get(`${position} ${name}`) ?? 0;
      if (actual === wanted || (actual === 0 && !isRequired(message, sinceMs))) return [];
      const detail = `${id} is ${status} and has ${actual} deliveries to ${name}`;
      return [
        violation(
          actual < wanted
            ? 'every listener got every delivery, or it is a dead letter'
            : 'only finished messages are delivered',
          detail,
        ),
      ];
    });
  });
}

/** The receiver accepted every finished delivery; it rejected every dead one, or the replicas sending it died. */
function settled({ deliveries, arrivals }: History): Violation[] {
  const accepted = new Set<string>();
  const rejected = new Set<string>();
  for (const { delivery, reply } of arrivals) (reply === 'ok' ? accepted : rejected).add(delivery);
  const known = new Set(deliveries.map(({ id }) => id));
  return [
    ...deliveries.flatMap(({ id, listener, status, error }) => {
      const check = 'every listener got every delivery, or it is a dead letter';
      if (status === 'finished' && !accepted.has(id))
        return [violation(check, `${id} to ${listener} is finished and was never accepted`)];
      if (status === 'dead' && !rejected.has(id) && !error?.includes('died'))
        return [violation(check, `${id} to ${listener} is dead (${error}) and was never rejected`)];
      return [];
    }),
    ...[...accepted, ...rejected]
      .filter((id) => !known.has(id))
      .map((id) =>
        violation(
          'only finished messages are delivered',
          `delivery ${id} was received and is not in the outbox`,
        ),
      ),
  ];
}

/** A dead letter of a listener that skips them may be delivered late; what came after it is not held up. */
function isOvertakable({ status, reopened }: DeliveryRow, { onDead }: Listener): boolean {
  return ['dead', 'discarded'].includes(status) || (reopened && onDead === 'skip');
}

/** The first requests of a key's deliveries come in the order of their numbers, each after the delivery ahead was accepted or dead. */
function orderPerKey({ arrivals, deliveries, terms }: History): Violation[] {
  const ordered = new Map(terms.listeners.filter((one) => one.ordered).map((one) => [one.name, one]));
  const firstAt = new Map<string, number>();
  const acceptedAt = new Map<string, number>();
  for (const { delivery, at, reply } of arrivals) {
    if (!firstAt.has(delivery)) firstAt.set(delivery, at);
    if (reply === 'ok' && !acceptedAt.has(delivery)) acceptedAt.set(delivery, at);
  }
  const ahead = new Map<string, DeliveryRow>();
  const numbers = new Map<string, number>();
  return deliveries.flatMap((row) => {
    const { id, listener, key, sequence } = row;
    if (!ordered.has(listener)) return [];
    const name = `${listener} ${key}`;
    const before = ahead.get(name);
    ahead.set(name, row);
    const number = (numbers.get(name) ?? 0) + 1;
    numbers.set(name, number);
    const check = 'order per key at the receiver';
    if (sequence !== number)
      return [violation(check, `${id} to ${listener} is number ${sequence} of ${key} instead of ${number}`)];
    const at = firstAt.get(id);
    if (!before || at === undefined || isOvertakable(before, ordered.get(listener)!)) return [];
    const beforeAt = acceptedAt.get(before.id);
    if (beforeAt !== undefined && beforeAt < at) return [];
    return [
      violation(check, `${id} (${sequence} of ${key}) came to ${listener} before ${before.id} was accepted`),
    ];
  });
}

/** With the first secret always: an old one signs for 24 hours. With the newest one as soon as every replica must know it. */
function signatures({ arrivals }: History): Violation[] {
  return arrivals.flatMap(({ delivery, listener, signed, rotated }) => {
    const results = [signed, ...(rotated && rotated.forMs > ROTATED_WITHIN_MS ? [rotated.signed] : [])];
    return results
      .filter((result) => result !== 'yes')
      .map((result) => violation('signatures', `${delivery} to ${listener}: ${result}`));
  });
}

/** Every request carries exactly what was posted, also when it is repeated. */
function bytes({ arrivals, deliveries, messages, posted, terms }: History): Violation[] {
  const rows = new Map(deliveries.map((row) => [row.id, row]));
  const byPosition = new Map(messages.map((row) => [row.position, row]));
  const texts = new Map(posted.map(({ id, payload }) => [id, payload]));
  const listeners = new Map(terms.listeners.map((one) => [one.name, one]));
  return arrivals.flatMap((arrival) => {
    const row = rows.get(arrival.delivery);
    const message = row && byPosition.get(row.message);
    if (!message) return [];
    const payload = texts.get(message.id) ?? message.text;
    if (isAsPosted(arrival, row, message, payload, listeners.get(arrival.listener)!)) return [];
    return [
      violation('bytes as posted', `${arrival.delivery} to ${arrival.listener} has the body ${arrival.body}`),
    ];
  });
}

function isAsPosted(
  { body, ce }: Arrival,
  { sequence }: DeliveryRow,
  { id, type, key }: MessageRow,
  payload: string,
  { format }: Listener,
): boolean {
  if (format === 'cloudevents') {
    return (
      body === payload && ce?.id === id && ce.type === type && ce.key === key && ce.sequence === sequence
    );
  }
  const head = `{"id":${JSON.stringify(id)},"type":${JSON.stringify(type)},"timestamp":"`;
  const tail = `","key":${JSON.stringify(key)},"sequence":${sequence},"data":${payload}}`;
  return body.startsWith(head) && body.endsWith(tail) && body.length === head.length + 24 + tail.length;
}

/** A delivery that was requested n times has at least n recorded attempts. */
function repeats({ arrivals, deliveries }: History): Violation[] {
  const requests = new Map<string, number>();
  for (const { delivery } of arrivals) requests.set(delivery, (requests.get(delivery) ?? 0) + 1);
  return deliveries.flatMap(({ id, listener, attemptsTotal }) => {
    const times = requests.get(id) ?? 0;
    if (times <= Math.max(1, attemptsTotal)) return [];
    const detail = `${id} came ${times} times to ${listener} and has ${attemptsTotal} recorded attempts`;
    return [violation('every repeat has a recorded reason', detail)];
  });
}

function attempts({ deliveries, terms }: History): Violation[] {
  const maxAttempts = new Map(terms.listeners.map(({ name, maxAttempts }) => [name, maxAttempts]));
  return deliveries
    .filter(({ listener, attempt }) => attempt > maxAttempts.get(listener)!)
    .map(({ id, listener, attempt }) =>
      violation('delivery attempts within the maximum', `${id} to ${listener} has ${attempt} attempts`),
    );
}
