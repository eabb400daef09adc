import type { Arrival, DeliveryRow, History, MessageRow, Terms } from './history.ts';
import { type Violation, violation } from './violation.ts';

type Listener = Terms['listeners'][number];

/** From the read model to the receivers. */
export function checkDeliveries(history: History): Violation[] {
  return [
    ...owed(history),
    ...arrived(history),
    ...orderPerKey(history),
    ...signatures(history),
    ...bytes(history),
    ...repeats(history),
    ...attempts(history),
  ];
}

/** One delivery per finished message and listener of its type, and none besides. */
function owed({ messages, deliveries, terms }: History): Violation[] {
  const counts = new Map<string, number>();
  for (const { message, listener } of deliveries) {
    counts.set(`${message} ${listener}`, (counts.get(`${message} ${listener}`) ?? 0) + 1);
  }
  return messages.flatMap(({ position, id, type, status }) =>
    terms.listeners.flatMap(({ name, types }) => {
      const wanted = status === 'finished' && types.includes(type) ? 1 : 0;
      const there = counts.get(`${position} ${name}`) ?? 0;
      if (there === wanted) return [];
      const detail = `${id} is ${status} and has ${there} deliveries to ${name}`;
      return [
        violation(
          there < wanted
            ? 'every listener got everything, or it is a dead letter'
            : 'told only what took effect',
          detail,
        ),
      ];
    }),
  );
}

/** What is called finished was taken by its receiver; what is dead was refused by it, or died with its replicas. */
function arrived({ deliveries, arrivals }: History): Violation[] {
  const taken = new Set<string>();
  const turnedDown = new Set<string>();
  for (const { delivery, answer } of arrivals) (answer === 'ok' ? taken : turnedDown).add(delivery);
  const known = new Set(deliveries.map(({ id }) => id));
  return [
    ...deliveries.flatMap(({ id, listener, status, error }) => {
      const check = 'every listener got everything, or it is a dead letter';
      if (status === 'finished' && !taken.has(id))
        return [violation(check, `${id} to ${listener} is finished and was never taken`)];
      if (status === 'dead' && !turnedDown.has(id) && !error?.includes('died'))
        return [violation(check, `${id} to ${listener} is dead (${error}) and was never turned down`)];
      return [];
    }),
    ...[...taken, ...turnedDown]
      .filter((id) => !known.has(id))
      .map((id) => violation('told only what took effect', `delivery ${id} came and nobody owes it`)),
  ];
}

/** First deliveries of a key come in the order of their numbers, and not before the one ahead was taken or buried. */
function orderPerKey({ arrivals, deliveries, terms }: History): Violation[] {
  const ordered = new Set(terms.listeners.filter((one) => one.ordered).map(({ name }) => name));
  const firstAt = new Map<string, number>();
  const takenAt = new Map<string, number>();
  for (const { delivery, at, answer } of arrivals) {
    if (!firstAt.has(delivery)) firstAt.set(delivery, at);
    if (answer === 'ok' && !takenAt.has(delivery)) takenAt.set(delivery, at);
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
    if (!before || at === undefined || before.status === 'dead') return [];
    const beforeAt = takenAt.get(before.id);
    if (beforeAt !== undefined && beforeAt < at) return [];
    return [
      violation(check, `${id} (${sequence} of ${key}) came to ${listener} before ${before.id} was taken`),
    ];
  });
}

function signatures({ arrivals }: History): Violation[] {
  return arrivals
    .filter(({ signed }) => signed !== 'yes')
    .map(({ delivery, listener, signed }) =>
      violation('signatures', `${delivery} to ${listener}: ${signed}`),
    );
}

/** Every request says exactly what was posted, whoever sent it and however often. */
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
    if (says(arrival, row, message, payload, listeners.get(arrival.listener)!)) return [];
    return [violation('bytes as posted', `${arrival.delivery} to ${arrival.listener} says ${arrival.body}`)];
  });
}

function says(
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

/** A delivery that came n times has at least n attempts in its story. */
function repeats({ arrivals, deliveries }: History): Violation[] {
  const came = new Map<string, number>();
  for (const { delivery } of arrivals) came.set(delivery, (came.get(delivery) ?? 0) + 1);
  return deliveries.flatMap(({ id, listener, attempts }) => {
    const times = came.get(id) ?? 0;
    if (times <= Math.max(1, attempts.length)) return [];
    const detail = `${id} came ${times} times to ${listener} and has ${attempts.length} attempts in its story`;
    return [violation('every repeat has a reason', detail)];
  });
}

function attempts({ deliveries, terms }: History): Violation[] {
  const most = new Map(terms.listeners.map(({ name, maxAttempts }) => [name, maxAttempts]));
  return deliveries
    .filter(({ listener, attempt }) => attempt > most.get(listener)!)
    .map(({ id, listener, attempt }) =>
      violation('delivery attempts within the maximum', `${id} to ${listener} has ${attempt} attempts`),
    );
}
