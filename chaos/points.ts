import { DenormalizerRunner } from '../src/inbox/denormalizers/denormalizer-runner.ts';
import { MessageAcceptor } from '../src/inbox/message-acceptor.ts';
import { InboxProcessor } from '../src/inbox/processing/inbox-processor.ts';
import { InboxTransaction } from '../src/inbox/processing/inbox-transaction.ts';
import { SettleStore } from '../src/inbox/processing/settle-store.ts';
import { LaneQueue } from '../src/lanes/lane-queue.ts';
import { OutboxStore } from '../src/outbox/outbox-store.ts';
import { DeliverySender } from '../src/outbox/send/delivery-sender.ts';
import { GroupWriter } from '../src/outbox/settle/group-writer.ts';
import { POINTS, type Point } from './point-names.ts';

/** What happens to the process that comes to a point. */
export type Blow = 'SIGKILL' | 'SIGSTOP';
export type Order = { readonly arm: Point; readonly blow: Blow } | { readonly disarm: true };
export type News = { readonly reached: Point };

type Method = (this: never, ...values: never[]) => unknown;

interface Place {
  readonly of: { readonly prototype: object };
  readonly method: string;
  readonly before?: Point;
  readonly after?: Point;
  /** Of a class that serves both queues. */
  readonly queue?: string;
}

/** Where in the code the points are; the methods are the service's own. */
const PLACES: readonly Place[] = [
  {
    of: MessageAcceptor,
    method: 'singles',
    before: 'ingest: not stored yet',
    after: 'ingest: stored, not answered yet',
  },
  { of: LaneQueue, method: 'lease', queue: 'inbox', after: 'inbox: leased' },
  { of: InboxTransaction, method: 'transact', before: 'inbox: claimed, not applied yet' },
  { of: DenormalizerRunner, method: 'apply', after: 'inbox: applied, not finished yet' },
  { of: SettleStore, method: 'finish', after: 'inbox: finished, not committed yet' },
  { of: InboxTransaction, method: 'transact', after: 'inbox: committed' },
  {
    of: InboxProcessor,
    method: 'fail',
    before: 'inbox: failed, not written yet',
    after: 'inbox: failure written',
  },
  { of: LaneQueue, method: 'lease', queue: 'outbox', after: 'outbox: leased' },
  {
    of: DeliverySender,
    method: 'call',
    before: 'outbox: not sent yet',
    after: 'outbox: answered, not written yet',
  },
  { of: OutboxStore, method: 'delivered', after: 'outbox: written, not committed yet' },
  { of: GroupWriter, method: 'commit', after: 'outbox: committed' },
];

const armed = new Map<Point, Blow>();

/** Puts the points into the code. Fails when a method is not there, so that no point is lost with a change of the service. */
export function placePoints(): void {
  for (const place of PLACES) put(place);
  const placed = new Set(PLACES.flatMap(({ before, after }) => [before, after]));
  for (const point of POINTS) if (!placed.has(point)) throw new Error(`there is no place for "${point}"`);
  process.on('message', (order: Order) => {
    if ('disarm' in order) armed.clear();
    else armed.set(order.arm, order.blow);
  });
}

function put({ of, method, before, after, queue }: Place): void {
  const prototype = of.prototype as Record<string, Method>;
  const original = prototype[method];
  if (typeof original !== 'function') throw new Error(`there is no method ${method}`);
  prototype[method] = async function (this: { readonly name?: string }, ...values: never[]) {
    const here = queue === undefined || this.name === queue;
    if (here && before) await reach(before);
    const result = await original.apply(this as never, values);
    if (here && after) await reach(after);
    return result;
  };
}

async function reach(point: Point): Promise<void> {
  const blow = armed.get(point);
  if (!blow) return;
  armed.delete(point);
  const news: News = { reached: point };
  await new Promise<void>((resolve) => process.send!(news, undefined, {}, () => resolve()));
  process.kill(process.pid, blow);
}
