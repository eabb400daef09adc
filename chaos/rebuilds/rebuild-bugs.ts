import type { IngestStore } from '../../src/inbox/ingest-store.ts';
import { InboxTransaction } from '../../src/inbox/processing/inbox-transaction.ts';
import type { ReadModelTx } from '../../src/inbox/processing/read-model-tx.ts';
import type { FanOut } from '../../src/outbox/fan-out/fan-out.ts';
import { LaneSource } from '../../src/rebuild/lane-source.ts';
import { Replay } from '../../src/rebuild/replay.ts';
import { SWITCH_GUARDS } from '../../src/rebuild/switch.ts';
import { replaceMethod, rewriteStatement, statementsOf, type TextChange } from '../change-code.ts';

/** Planted bugs of rebuilds; see bugs.ts. */
export const REBUILD_BUGS = {
  /** A switch does not wait for batches in flight. */
  switchFence: () => {
    SWITCH_GUARDS.fence = false;
  },
  /** It catches up in the order of positions: what is finished behind a later message of its lane is passed over. */
  catchUpOrder: () => {
    const source: LaneSource = Object.create(LaneSource.prototype);
    // The first statement of each chooses the plans.
    const [, lanes] = statementsOf((tx) => source.behind(0, tx));
    const [, messages] = statementsOf((tx) => source.next([], 0, [], tx));
    rewriteStatement(lanes, byPosition('progress'));
    rewriteStatement(messages, byPosition('cursor'));
  },
  /** What denormalizers send in a rebuild is stored. */
  suppressedSend: () => {
    const live = partsOfLive();
    replaceMethod(
      Replay,
      'apply',
      (apply) =>
        async function (rebuild, model, rows, prepared, tx) {
          const sending: ReadModelTx[] = [];
          const runner = Object.create(model.runner) as typeof model.runner;
          runner.apply = (messages, readModelTx, ...others) => {
            sending.push(readModelTx as ReadModelTx);
            return model.runner.apply(messages, readModelTx, ...others);
          };
          await apply.call(this, rebuild, { ...model, runner }, rows, prepared, tx);
          for (const one of sending) await one.storeSent(live().ingest);
        },
    );
  },
  /** A rebuild writes deliveries for the messages that it applies. */
  suppressedFanOut: () => {
    const live = partsOfLive();
    replaceMethod(
      Replay,
      'apply',
      (apply) =>
        async function (rebuild, model, rows, prepared, tx) {
          await apply.call(this, rebuild, model, rows, prepared, tx);
          await Promise.all(live().fanOut.writerFor(rows).write(tx));
        },
    );
  },
} as const;

/** Private members. */
interface InboxTransactionInternals {
  readonly ingest: IngestStore;
  readonly fanOut: FanOut;
}

function byPosition(cursor: string): TextChange {
  return [
    `(inbox.lane, COALESCE(inbox.applied, 0), inbox.position) > (${cursor}.lane, ${cursor}.applied, ${cursor}.position)`,
    `inbox.lane = ${cursor}.lane AND inbox.position > ${cursor}.position`,
  ];
}

/** Of the live processing of this replica, once it has applied a message. */
function partsOfLive(): () => InboxTransactionInternals {
  let found: InboxTransactionInternals | undefined;
  replaceMethod(
    InboxTransaction,
    'apply',
    (apply) =>
      function (batch, rows) {
        found = this as unknown as InboxTransactionInternals;
        return apply.call(this, batch, rows);
      },
  );
  return () => {
    if (!found) throw new Error('this replica has applied no live message yet');
    return found;
  };
}
