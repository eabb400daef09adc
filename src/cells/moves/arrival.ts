import type { Database } from '../../database/database.ts';
import type { Transaction } from '../../database/transaction.ts';
import { openFence } from '../catalogue-store.ts';
import type { Counted } from './departure.ts';
import { lockJobs, rebuiltModel } from './jobs.ts';
import { enter, markArrived, type Outcome, undoUnlessArrived } from './marker.ts';
import type { Move } from './move-store.ts';
import { unpackThere } from './parcels.ts';
import { MoveRefused } from './refused.ts';

/**
 * arrival.countAbove — new rows come behind those that arrive: order goes by numbers. Far above, because others count here
 * meanwhile, and a sequence that was set back would give out a number twice. $1 sequence, $2 what the other cell has
 * counted, $3 the cell, whose positions are its number modulo 256; null for a sequence that all cells count alike
 */
export const COUNT_ABOVE = `
  SELECT setval($1::text::regclass, (($2::bigint + 4294967296) / 256) * 256 + COALESCE($3::bigint, 0))
  WHERE COALESCE(pg_sequence_last_value($1::text::regclass), 0) <= $2::bigint`;

/** The cell that the slot goes to. */
export class Arrival {
  constructor(
    private readonly database: Database,
    private readonly move: Move,
  ) {}

  async refuseRebuild(): Promise<void> {
    await this.database.transaction(refuseRebuild);
  }

  /** Everything arrives in one transaction, and its COMMIT decides the move. `version`: of the slot, from now on. */
  async unpack(from: Database, counted: Counted, version: number): Promise<void> {
    const { id, slot, to } = this.move;
    await this.database.transaction(async (tx) => {
      await enter(tx, id);
      await lockJobs(tx);
      await refuseRebuild(tx);
      for (const [sequence, above] of sequencesOf(counted))
        await tx.query(COUNT_ABOVE, [sequence, above, sequence === 'inbox_applied_seq' ? null : to]);
      // First: the fence refuses messages of slots that are not open.
      await openFence(tx, to, slot, version);
      await unpackThere(from, tx, id);
      await markArrived(tx, id);
    });
  }

  undoUnlessArrived(): Promise<Outcome> {
    return this.database.transaction((tx) => undoUnlessArrived(tx, this.move.id));
  }
}

async function refuseRebuild(tx: Transaction): Promise<void> {
  const model = await rebuiltModel(tx);
  if (model !== undefined)
    throw new MoveRefused(`the read model "${model}" is being rebuilt there; end its rebuild first`);
}

const sequencesOf = ({ inbox, outbox, applied }: Counted) =>
  [
    ['inbox_position_seq', inbox],
    ['outbox_position_seq', outbox],
    ['inbox_applied_seq', applied],
  ] as const;
