import { Injectable } from '@nestjs/common';
import type pg from 'pg';
import { closeClient } from '../database/close-client.ts';
import { Database } from '../database/database.ts';
import { codeOf } from '../database/errors.ts';
import { type Diff, DiffTables } from './diff-tables.ts';
import { LaneSource } from './lane-source.ts';
import { Pages } from './pages.ts';
import type { RegisteredModel } from './read-model-registry.ts';
import type { Rebuild } from './rebuild.ts';
import { RebuildPreparations } from './rebuild-preparations.ts';
import { Replay } from './replay.ts';

const COMPARES = `hashtext('sluice.rebuild'), $1::int`;

/** Whether no replica compares; the lock is released at once. $1 rebuild */
export const FREE_TO_COMPARE = `SELECT pg_try_advisory_xact_lock(${COMPARES}) AS free`;

/** Batches of live messages in flight end first, new ones wait at their fence. */
export const LOCK_LANES = `SELECT lane FROM lane WHERE queue = 'inbox' ORDER BY lane FOR NO KEY UPDATE`;

/** The first statement of the reader takes its snapshot, and the lock that keeps others from comparing, too. $1 rebuild */
export const SNAPSHOT = `SELECT pg_try_advisory_xact_lock(${COMPARES}) AS mine`;

/** Batches, while live messages wait and before they do. */
const MAX_CATCH_UP = 20;
/** What may be left when live messages begin to wait. */
const MAX_LEFT = 50;
const LOCK_TIMEOUT = '2s';
const LOCK_NOT_AVAILABLE = '55P03';

/** Why there is no diff yet: another replica compares, or live messages come too fast; or one of these needs its `prepare`. */
export type NoDiff = 'busy' | 'needs-prepare';

/**
 * Compares the living schema and the next one as of one moment, without a pause: while all lanes are locked the rest is
 * applied and a snapshot is taken, a few milliseconds; the comparison reads that snapshot, however long it takes.
 */
@Injectable()
export class Differ {
  constructor(
    private readonly database: Database,
    private readonly source: LaneSource,
    private readonly pages: Pages,
    private readonly replay: Replay,
    private readonly preparations: RebuildPreparations,
  ) {}

  async run(rebuild: Rebuild, model: RegisteredModel, stopping: AbortSignal): Promise<Diff | NoDiff> {
    const [row] = await this.database.query<{ free: boolean }>(FREE_TO_COMPARE, [rebuild.id]);
    if (!row!.free) return 'busy';
    if (!(await this.catchUp(rebuild, model, stopping))) return 'needs-prepare';
    const reader = this.database.standaloneClient('sluice rebuild');
    reader.on('error', () => undefined);
    await reader.connect();
    try {
      const taken = await this.takeSnapshot(rebuild, model, reader).catch(busyIfLocked);
      if (taken !== 'taken') return taken;
      return await new DiffTables(reader, model.name, rebuild.target).compare();
    } finally {
      await closeClient(reader);
    }
  }

  /** While live messages are applied. False: those that need their `prepare` come faster than it can be called. */
  private async catchUp(rebuild: Rebuild, model: RegisteredModel, stopping: AbortSignal): Promise<boolean> {
    for (let n = 0; n < MAX_CATCH_UP; n++) {
      const needsPrepare = await this.preparations.areNext(rebuild, model);
      if (!needsPrepare && (await this.pages.isNearEnd(rebuild, MAX_LEFT))) return true;
      if (needsPrepare && n === MAX_CATCH_UP - 1) return false;
      await this.replay.batch(rebuild, model, stopping);
    }
    return true;
  }

  private takeSnapshot(
    rebuild: Rebuild,
    model: RegisteredModel,
    reader: pg.Client,
  ): Promise<NoDiff | 'taken'> {
    return this.database.transaction(async (tx) => {
      await tx.execute(`SET LOCAL lock_timeout = '${LOCK_TIMEOUT}'`);
      await tx.query(LOCK_LANES);
      for (let n = 0; (await this.source.behind(rebuild.id)).length > 0; n++) {
        if (n === MAX_CATCH_UP) return 'busy';
        // A call to another system may take long.
        if (await this.preparations.areNext(rebuild, model)) return 'needs-prepare';
        await this.replay.batch(rebuild, model);
      }
      await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
      // The lock is that of a transaction: behind a pooler, a session has no other.
      const { rows } = await reader.query(SNAPSHOT, [rebuild.id]);
      return rows[0].mine ? 'taken' : 'busy';
    });
  }
}

/** A batch of live messages holds its lanes for longer: the next try may be lucky. */
function busyIfLocked(error: unknown): NoDiff {
  if (codeOf(error) === LOCK_NOT_AVAILABLE) return 'busy';
  throw error;
}
