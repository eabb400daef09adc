import type { Database } from '../../database/database.ts';
import type { Transaction } from '../../database/transaction.ts';
import type { AuditLog } from '../../http/audit/audit-log.ts';
import { Problem } from '../../http/problems.ts';
import { takeTurn } from '../catalogue-store.ts';
import { MoveEnded } from './marker.ts';
import {
  CLOSE_MOVE,
  CLOSE_SLOT,
  CLOSED_VERSION,
  DONE,
  FAILED,
  MOVES,
  OPEN_MOVE_OF,
  PREPARE_MOVE,
  RELEASE_MOVE,
  RENEW_MOVE,
  REOPEN_SLOT,
  REOPEN_UNKNOWN,
  REQUEST_MOVES,
  SET_ROWS,
  STATE_OF,
  SWITCH_SLOT,
  SWITCHED,
  TAKE_MOVE,
  UNDONE,
} from './move.sql.ts';

/** A move of one slot, as the catalogue knows it. */
export interface Move {
  readonly id: string;
  readonly slot: number;
  readonly from: number;
  readonly to: number;
  readonly state: 'waiting' | 'preparing' | 'closed' | 'cleaning' | 'done' | 'undone';
  readonly replica: string | null;
  readonly rows: number | null;
  readonly error: string | null;
  readonly createdAt: Date;
  readonly createdBy: string;
  readonly endedAt: Date | null;
  readonly pauseMs: number | null;
}

/** Max moves listed that have ended. */
const ENDED_LISTED = 256;

/** The moves in the catalogue. Nothing is changed if the mover is not this one any more. */
export class MoveStore {
  constructor(
    private readonly home: Database,
    private readonly mover: string,
    private readonly leaseMs: number,
  ) {}

  list(): Promise<Move[]> {
    return listMoves(this.home);
  }

  async take(replica: string, cells: readonly number[]): Promise<Move | undefined> {
    return this.home.transaction(async (tx) => {
      await takeTurn(tx);
      await tx.execute(REOPEN_UNKNOWN);
      const [move] = await tx.query<Move>(TAKE_MOVE, [this.mover, this.leaseMs, replica, cells]);
      return move;
    });
  }

  async renew({ id }: Move): Promise<boolean> {
    return (await this.home.query(RENEW_MOVE, [id, this.mover, this.leaseMs])).length > 0;
  }

  async stateOf({ id }: Move): Promise<Move['state'] | undefined> {
    const [move] = await this.home.query<Pick<Move, 'state'>>(STATE_OF, [id, this.mover]);
    return move?.state;
  }

  async release({ id }: Move, forMs: number): Promise<void> {
    await this.home.execute(RELEASE_MOVE, [id, this.mover, forMs]);
  }

  prepare(move: Move): Promise<void> {
    return this.home.transaction((tx) => this.must(tx, PREPARE_MOVE, move));
  }

  /** Posts of the slot wait from now on. Returns the version of the slot. */
  close(move: Move): Promise<number> {
    return this.home.transaction(async (tx) => {
      await this.must(tx, CLOSE_MOVE, move);
      const [slot] = await tx.query<{ version: number }>(CLOSE_SLOT, [move.id]);
      if (!slot) throw new MoveEnded('the slot is in another cell by now');
      return slot.version;
    });
  }

  /** Of the slot while it is closed for this move. */
  async closedVersion({ id }: Move): Promise<number | undefined> {
    return (await this.home.query<{ version: number }>(CLOSED_VERSION, [id]))[0]?.version;
  }

  switchSlot(move: Move): Promise<void> {
    return this.home.transaction(async (tx) => {
      await this.must(tx, SWITCHED, move);
      await tx.execute(SWITCH_SLOT, [move.id]);
    });
  }

  undone(move: Move, why: string): Promise<void> {
    return this.home.transaction(async (tx) => {
      await this.must(tx, UNDONE, move, why);
      await tx.execute(REOPEN_SLOT, [move.id]);
    });
  }

  async setRows({ id }: Move, rows: number): Promise<void> {
    await this.home.execute(SET_ROWS, [id, this.mover, rows]);
  }

  async failed({ id }: Move, why: string): Promise<void> {
    await this.home.execute(FAILED, [id, this.mover, why]);
  }

  async done({ id }: Move): Promise<void> {
    await this.home.execute(DONE, [id, this.mover]);
  }

  private async must(tx: Transaction, sql: string, { id }: Move, ...more: unknown[]): Promise<void> {
    if ((await tx.execute(sql, [id, this.mover, ...more])) === 0)
      throw new MoveEnded('another replica has taken the move over');
  }
}

/** Those that have not ended, and the last that did; latest first. */
export function listMoves(home: Database): Promise<Move[]> {
  return home.query<Move>(MOVES, [ENDED_LISTED]);
}

/** An operator wants slots in a cell. Throws if one of them is being moved already. */
export async function requestMoves(
  home: Database,
  audit: AuditLog,
  { slots, to, name, by }: { slots: readonly number[]; to: number; name: string; by: string },
): Promise<Move[]> {
  return home.transaction(async (tx) => {
    await takeTurn(tx);
    const [open] = await tx.query<{ slot: number }>(OPEN_MOVE_OF, [slots]);
    if (open) throw new Problem('conflict', `Slot ${open.slot} is being moved already.`);
    const moves = await tx.query<Move>(REQUEST_MOVES, [slots, to, by]);
    await audit.record({ by, action: 'cell.move', target: name, filter: { slots }, count: moves.length }, tx);
    return moves;
  });
}
