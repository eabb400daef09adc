import { createHmac } from 'node:crypto';
import { IngestStore } from '../src/inbox/ingest-store.ts';
import { MessageAcceptor } from '../src/inbox/message-acceptor.ts';
import type { NewMessage } from '../src/inbox/new-message.ts';
import { LaneQueue } from '../src/lanes/lane-queue.ts';
import type { LaneRow } from '../src/lanes/lane-queue-types.ts';
import { GUARDS } from '../src/lanes/lease.ts';
import { RunSizes } from '../src/outbox/claim/claim-sizes.ts';
import { OutboxProcessor } from '../src/outbox/outbox-processor.ts';
import type { WebhookRequest } from '../src/webhooks/webhook-request.ts';
import { WebhookSender } from '../src/webhooks/webhook-sender.ts';
import { alter, inOneSnapshot } from '../test/support/lanes.ts';
import { ADDITION_BUGS } from './additions/addition-bugs.ts';
import { replaceMethod } from './change-code.ts';
import { GROUP_BUGS } from './groups/group-bugs.ts';
import { QUEUE_BUGS } from './queues/queue-bugs.ts';
import { REBUILD_BUGS } from './rebuilds/rebuild-bugs.ts';

/** Planted bugs: each removes a guard from a replica of a fault run. No setting of the service can do this. */
export const BUGS = {
  fence: () => {
    GUARDS.fence = false;
  },
  finishCheck: () => {
    GUARDS.settledCount = false;
  },
  /** Lease and claim in one statement, with one snapshot. */
  secondSnapshot: () => alterInboxQueue(inOneSnapshot),
  /** Not a guard: delays every lease while an advisory lock is held, for a scenario that needs a late claim. */
  leaseGate: () =>
    alterInboxQueue((queue) => {
      for (const lease of ['lease', 'leaseHinted'] as const)
        alter(queue, lease, /FROM lane\s+CROSS JOIN LATERAL/, LEASE_GATE);
    }),
  /** Responds before it stores. */
  commitBeforeResponse: () =>
    replaceMethod(
      MessageAcceptor,
      'acceptSingles',
      (acceptSingles) =>
        async function (messages) {
          setTimeout(() => void acceptSingles.call(this, messages).catch(() => undefined), 20);
          return messages.map(({ id }) => ({ kind: 'accepted', id, status: 'pending' }));
        },
    ),
  /** The scenario drops the unique index instead: there is nothing to remove in the replica. */
  dedupe: () => undefined,
  /** A message gets a random lane instead of the one of its key. */
  order: () => {
    replaceMethod(
      IngestStore,
      'insertNew',
      (insertNew) =>
        function (messages, tx) {
          return insertNew.call(this, messages.map(withRandomLane), tx);
        },
    );
    replaceMethod(
      IngestStore,
      'insertWithPiggyback',
      (insertWithPiggyback) =>
        function (message, piggyback) {
          return insertWithPiggyback.call(this, withRandomLane(message), piggyback);
        },
    );
  },
  /** A claim does not check whether a key is held. */
  hold: () =>
    alterInboxQueue((queue) => alter(queue, 'claim', 'hold.key IS NOT NULL AS held', 'false AS held')),
  /** Not a guard: every read of a run size returns another value, as happens occasionally while runs end. */
  changingRunSizes: () => {
    let reads = 0;
    replaceMethod(RunSizes, 'first', () => () => 2 + (reads++ % 7));
  },
  /** The size of a claim is computed again after each lease that was awaited. */
  claimSize: () => {
    const prototype = OutboxProcessor.prototype as unknown as OutboxInternals;
    for (const name of ['leaseLanes', 'canSendOn', 'maxRowsOf', 'leaseGroup'] as const)
      if (!prototype[name]) throw new Error(`OutboxProcessor has no ${name}: the bug would change nothing`);
    prototype.leaseLanes = async function (candidates, quick) {
      const lanes = candidates.filter((lane) => this.canSendOn(lane));
      for (const maxRows of new Set(lanes.map((lane) => this.maxRowsOf(lane)))) {
        const ofThatSize = lanes.filter((lane) => this.maxRowsOf(lane) === maxRows);
        await this.leaseGroup(ofThatSize, maxRows, quick);
      }
    };
  },
  signature: () =>
    replaceMethod(
      WebhookSender,
      'send',
      (send) =>
        function (request, options) {
          const headers = request.headers.map(withWrongSignature(request));
          return send.call(this, { ...request, headers }, options);
        },
    ),
  ...QUEUE_BUGS,
  ...GROUP_BUGS,
  ...ADDITION_BUGS,
  ...REBUILD_BUGS,
} as const;

export type Bug = keyof typeof BUGS;

export function plantBugs(names: readonly string[]): void {
  for (const name of names) {
    if (!(name in BUGS)) throw new Error(`there is no bug "${name}"`);
    BUGS[name as Bug]();
  }
}

export const LEASE_GATE_LOCK = 7;
const LEASE_GATE = `FROM (SELECT pg_advisory_xact_lock_shared(${LEASE_GATE_LOCK})) AS gate, lane CROSS JOIN LATERAL`;

/** Private members of the outbox processor. */
interface OutboxInternals {
  leaseLanes(candidates: readonly number[], quick: boolean): Promise<void>;
  canSendOn(lane: number): boolean;
  maxRowsOf(lane: number): number;
  leaseGroup(lanes: readonly number[], maxRows: number, quick: boolean): Promise<void>;
}

type Queue = LaneQueue<LaneRow>;

/** Changes the inbox queue before its first lease: the service creates it later than this runs. */
function alterInboxQueue(change: (queue: Queue) => void): void {
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

function withRandomLane(message: NewMessage): NewMessage {
  return { ...message, lane: Math.floor(Math.random() * 256) };
}

function withWrongSignature({ headers, body }: WebhookRequest) {
  return (value: string, index: number) =>
    headers[index - 1] === 'webhook-signature'
      ? `v1,${createHmac('sha256', 'another').update(body).digest('base64')}`
      : value;
}
