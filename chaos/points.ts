import { Commits } from '../src/groups/commits.ts';
import { GroupsStore } from '../src/groups/groups-store.ts';
import { PollStore } from '../src/groups/poll-store.ts';
import { Archive } from '../src/history/archive.ts';
import { DenormalizerRunner } from '../src/inbox/denormalizers/denormalizer-runner.ts';
import { MessageAcceptor } from '../src/inbox/message-acceptor.ts';
import { InboxProcessor } from '../src/inbox/processing/inbox-processor.ts';
import { InboxTransaction } from '../src/inbox/processing/inbox-transaction.ts';
import { SettleStore } from '../src/inbox/processing/settle-store.ts';
import { LaneQueue } from '../src/lanes/lane-queue.ts';
import { OutboxStore } from '../src/outbox/outbox-store.ts';
import { HandOutStore } from '../src/outbox/pull/hand-out-store.ts';
import { LeaseStore } from '../src/outbox/pull/lease-store.ts';
import { LaneSender } from '../src/outbox/send/lane-sender.ts';
import { BatchSettler } from '../src/outbox/settle/batch-settler.ts';
import { Build } from '../src/rebuild/build.ts';
import { Replay } from '../src/rebuild/replay.ts';
import { Switch } from '../src/rebuild/switch.ts';
import { POINTS, type Point } from './point-names.ts';

/** What a process sends itself when it reaches a point. */
export type PointSignal = 'SIGKILL' | 'SIGSTOP';
export type PointCommand = { readonly arm: Point; readonly signal: PointSignal } | { readonly disarm: true };
export type PointReport = { readonly reached: Point };

type Method = (this: never, ...values: never[]) => unknown;

interface Location {
  readonly of: { readonly prototype: object };
  readonly method: string;
  readonly before?: Point;
  readonly after?: Point;
  /** Only for this queue, where the class serves both. */
  readonly queue?: string;
}

/** Where the points are in the code of the service. */
export const LOCATIONS: readonly Location[] = [
  {
    of: MessageAcceptor,
    method: 'acceptSingles',
    before: 'ingest: not stored yet',
    after: 'ingest: stored, response not sent yet',
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
    of: LaneSender,
    method: 'call',
    before: 'outbox: not sent yet',
    after: 'outbox: response received, not written yet',
  },
  { of: OutboxStore, method: 'delivered', after: 'outbox: written, not committed yet' },
  { of: BatchSettler, method: 'commit', after: 'outbox: committed' },
  { of: HandOutStore, method: 'handOut', after: 'pull: messages handed out, response not sent yet' },
  { of: LeaseStore, method: 'settle', after: 'pull: leases settled, response not sent yet' },
  { of: PollStore, method: 'poll', after: 'groups: messages handed out, response not sent yet' },
  { of: Commits, method: 'commit', after: 'groups: offsets committed, response not sent yet' },
  { of: GroupsStore, method: 'update', after: 'groups: partitions assigned, not committed yet' },
  { of: Build, method: 'makeSchema', after: 'rebuild: schema made, not recorded yet' },
  { of: Replay, method: 'apply', after: 'rebuild: applied, not committed yet' },
  { of: Switch, method: 'swap', after: 'rebuild: switched, not committed yet' },
  { of: Archive, method: 'move', after: 'history: messages moved, not committed yet' },
];

const armed = new Map<Point, PointSignal>();

/** Wraps the methods. Fails when a method does not exist, so that no point is lost when the service changes. */
export function installPoints(): void {
  for (const location of LOCATIONS) wrap(location);
  const placed = new Set(LOCATIONS.flatMap(({ before, after }) => [before, after]));
  for (const point of POINTS) if (!placed.has(point)) throw new Error(`no location for "${point}"`);
  process.on('message', (command: PointCommand) => {
    if ('disarm' in command) armed.clear();
    else armed.set(command.arm, command.signal);
  });
}

function wrap({ of, method, before, after, queue }: Location): void {
  const prototype = of.prototype as Record<string, Method>;
  const original = prototype[method];
  if (typeof original !== 'function') throw new Error(`no method ${method}`);
  prototype[method] = async function (this: { readonly name?: string }, ...values: never[]) {
    const here = queue === undefined || this.name === queue;
    if (here && before) await reach(before);
    const result = await original.apply(this as never, values);
    if (here && after) await reach(after);
    return result;
  };
}

async function reach(point: Point): Promise<void> {
  const signal = armed.get(point);
  if (!signal) return;
  armed.delete(point);
  const report: PointReport = { reached: point };
  await new Promise<void>((resolve) => process.send!(report, undefined, {}, () => resolve()));
  process.kill(process.pid, signal);
}
