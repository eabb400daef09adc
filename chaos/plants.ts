import { createHmac } from 'node:crypto';
import { IngestStore } from '../src/inbox/ingest-store.ts';
import { MessageAcceptor } from '../src/inbox/message-acceptor.ts';
import type { NewMessage } from '../src/inbox/new-message.ts';
import { GUARDS } from '../src/lanes/guards.ts';
import { LaneQueue } from '../src/lanes/lane-queue.ts';
import type { LaneRow } from '../src/lanes/lease-request.ts';
import { RunSizes } from '../src/outbox/claim/run-sizes.ts';
import { OutboxProcessor } from '../src/outbox/outbox-processor.ts';
import type { WebhookRequest } from '../src/webhooks/webhook-request.ts';
import { WebhookSender } from '../src/webhooks/webhook-sender.ts';
import { inOneSnapshot, statementsOf } from '../test/support/lanes.ts';

/** Guards that a replica of a fault run can be made to do without; no setting of the service does this. */
const PLANTS = {
  fence: () => {
    GUARDS.fence = false;
  },
  finishCheck: () => {
    GUARDS.settledCount = false;
  },
  /** Lease and claim as one statement. */
  secondSnapshot: () => onTheInbox(inOneSnapshot),
  /** Not a guard: a door before the lanes, for whoever must come too late. An advisory lock closes it. */
  door: () =>
    onTheInbox((queue) => {
      for (const lease of ['lease', 'leaseHinted'] as const)
        alter(queue, lease, /FROM lane\s+CROSS JOIN LATERAL/, DOOR);
    }),
  /** Answers first, stores then. */
  commitBeforeAnswer: () => {
    const stored = MessageAcceptor.prototype.acceptSingles;
    MessageAcceptor.prototype.acceptSingles = async function (messages) {
      setTimeout(() => void stored.call(this, messages).catch(() => undefined), 20);
      return messages.map(({ id }) => ({ kind: 'accepted', id, status: 'pending' }));
    };
  },
  /** Done to the database instead: there is nothing to take away here. */
  dedupe: () => undefined,
  /** A key takes any lane. */
  order: () => {
    const insert = IngestStore.prototype.insert;
    IngestStore.prototype.insert = function (messages, on) {
      return insert.call(this, messages.map(inAnyLane), on);
    };
  },
  /** A claim does not look whether a key is held. */
  hold: () => onTheInbox((queue) => alter(queue, 'claim', 'hold.key IS NOT NULL AS held', 'false AS held')),
  /** Not a guard: every look at a run size finds another one, as happens now and then while runs end. */
  restlessSizes: () => {
    let looks = 0;
    RunSizes.prototype.first = () => 2 + (looks++ % 7);
  },
  /** The size of a claim is computed again after each lease that was awaited. */
  claimSize: () => {
    const prototype = OutboxProcessor.prototype as unknown as Taking;
    prototype.take = async function (candidates, quick) {
      const lanes = candidates.filter((lane) => this.isWanted(lane));
      for (const maxRows of new Set(lanes.map((lane) => this.maxRowsOf(lane)))) {
        const ofThatSize = lanes.filter((lane) => this.maxRowsOf(lane) === maxRows);
        await this.lease(ofThatSize, maxRows, quick);
      }
    };
  },
  signature: () => {
    const send = WebhookSender.prototype.send;
    WebhookSender.prototype.send = function (request, options) {
      return send.call(this, { ...request, headers: request.headers.map(otherSignature(request)) }, options);
    };
  },
} as const;

export type Plant = keyof typeof PLANTS;

export function plant(names: readonly string[]): void {
  for (const name of names) {
    if (!(name in PLANTS)) throw new Error(`there is no plant "${name}"`);
    PLANTS[name as Plant]();
  }
}

export const DOOR_NUMBER = 7;
const DOOR = `FROM (SELECT pg_advisory_xact_lock_shared(${DOOR_NUMBER})) AS door, lane CROSS JOIN LATERAL`;

/** What the outbox keeps to itself. */
interface Taking {
  take(candidates: readonly number[], quick: boolean): Promise<void>;
  isWanted(lane: number): boolean;
  maxRowsOf(lane: number): number;
  lease(lanes: readonly number[], maxRows: number, quick: boolean): Promise<void>;
}

type Queue = LaneQueue<LaneRow>;

/** To its queue, before the first lease: it is made by the service, later than this. */
function onTheInbox(change: (queue: Queue) => void): void {
  const prototype = LaneQueue.prototype as unknown as Record<'lease' | 'leaseSuspect', Method>;
  const changed = new WeakSet<object>();
  for (const method of ['lease', 'leaseSuspect'] as const) {
    const original = prototype[method];
    prototype[method] = function (this: Queue, ...values: never[]) {
      if (this.name === 'inbox' && !changed.has(this)) change(this);
      changed.add(this);
      return original.apply(this, values);
    };
  }
}

type Method = (this: Queue, ...values: never[]) => unknown;

function alter(
  queue: Queue,
  statement: 'lease' | 'leaseHinted' | 'claim',
  from: string | RegExp,
  to: string,
): void {
  const sql = statementsOf(queue);
  const changed = sql[statement].replace(from, () => to);
  if (changed === sql[statement]) throw new Error(`${statement} has no ${from}`);
  sql[statement] = changed;
}

function inAnyLane(message: NewMessage): NewMessage {
  return { ...message, lane: Math.floor(Math.random() * 256) };
}

function otherSignature({ headers, body }: WebhookRequest) {
  return (value: string, index: number) =>
    headers[index - 1] === 'webhook-signature'
      ? `v1,${createHmac('sha256', 'another').update(body).digest('base64')}`
      : value;
}
