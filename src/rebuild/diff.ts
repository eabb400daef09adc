import { Injectable } from '@nestjs/common';
import type pg from 'pg';
import { closeClient } from '../database/close-client.ts';
import { Database } from '../database/database.ts';
import { codeOf } from '../database/errors.ts';
import { type Diff, DiffTables } from './diff-tables.ts';
import { LaneSource } from './lane-source.ts';
import type { RegisteredModel } from './read-model-registry.ts';
import type { Rebuild } from './rebuild.ts';
import { Replay } from './replay.ts';

const MAX_CATCH_UP = 20;
const LOCK_TIMEOUT = '2s';
const LOCK_NOT_AVAILABLE = '55P03';

/**
 * Compares the living schema and the next one as of one moment, without a pause: while all lanes are locked the rest is
 * applied and a snapshot is taken, a few milliseconds; the comparison reads that snapshot, however long it takes.
 */
@Injectable()
export class Differ {
  constructor(
    private readonly database: Database,
    private readonly source: LaneSource,
    private readonly replay: Replay,
  ) {}

  /** Undefined if there is too much left to catch up with, or another replica compares. */
  async run(rebuild: Rebuild, model: RegisteredModel): Promise<Diff | undefined> {
    const reader = this.database.standaloneClient('sluice rebuild');
    reader.on('error', () => undefined);
    await reader.connect();
    try {
      const { rows } = await reader.query('SELECT pg_try_advisory_lock(hashtext($1), $2::int) AS mine', [
        'sluice.rebuild',
        rebuild.id,
      ]);
      if (!rows[0].mine || !(await this.takeSnapshot(rebuild, model, reader).catch(isBusy))) return undefined;
      return await new DiffTables(reader, model.name, rebuild.target).compare();
    } finally {
      await closeClient(reader);
    }
  }

  private takeSnapshot(rebuild: Rebuild, model: RegisteredModel, reader: pg.Client): Promise<boolean> {
    return this.database.transaction(async (tx) => {
      await tx.execute(`SET LOCAL lock_timeout = '${LOCK_TIMEOUT}'`);
      await tx.query(`SELECT lane FROM lane WHERE queue = 'inbox' ORDER BY lane FOR NO KEY UPDATE`);
      for (let n = 0; (await this.source.behind(rebuild.id)).length > 0; n++) {
        if (n === MAX_CATCH_UP) return false;
        await this.replay.batch(rebuild, model);
      }
      await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
      await reader.query('SELECT 1 FROM rebuild LIMIT 1');
      return true;
    });
  }
}

/** A batch of live messages holds its lanes for longer: the next try may be lucky. */
function isBusy(error: unknown): false {
  if (codeOf(error) === LOCK_NOT_AVAILABLE) return false;
  throw error;
}
