import { Injectable } from '@nestjs/common';
import { Database } from '../database/database.ts';
import { codeOf, isEngineDatabaseAway } from '../database/errors.ts';
import type { Transaction } from '../database/transaction.ts';
import { ApplyFailed } from '../inbox/denormalizers/denormalizer-runner.ts';
import { HistorySource } from './history-source.ts';
import { LaneSource } from './lane-source.ts';
import type { RegisteredModel } from './read-model-registry.ts';
import { MAX_TAIL, nextSchema, previousSchema, type Rebuild } from './rebuild.ts';
import { RebuildPreparations } from './rebuild-preparations.ts';
import { Replay } from './replay.ts';
import {
  ASK,
  DEPENDENTS,
  FOLLOW_AGAIN,
  LEFT_OUT,
  LOCK_INBOX,
  LOCK_MIGRATIONS,
  LOCK_REBUILD,
  MISSING_MIGRATION,
  SWITCHED,
} from './switch.sql.ts';

/** With payloads of 8 MiB each, so that live messages do not wait for long. */
const MAX_ROUNDS = 5;
const LOCK_TIMEOUT = '2s';
const LOCK_NOT_AVAILABLE = '55P03';

/** Guards that a fault run removes, to show that they are needed. */
export const SWITCH_GUARDS = { fence: true };

/** Not now; the message says what it waits for. */
class NotNow extends Error {}

/** An operator has to decide; the message says what about. */
class AskFirst extends Error {}

/** Makes the other schema the living one, in one short transaction in which no message is applied. */
@Injectable()
export class Switch {
  constructor(
    private readonly database: Database,
    private readonly source: LaneSource,
    private readonly history: HistorySource,
    private readonly replay: Replay,
    private readonly preparations: RebuildPreparations,
  ) {}

  /** Returns the pause in milliseconds; undefined if it has to wait, or another replica was faster. */
  async run(rebuild: Rebuild, model: RegisteredModel): Promise<number | undefined> {
    try {
      const startedAtMs = await this.database.transaction((tx) => this.inTransaction(rebuild, model, tx));
      return startedAtMs === undefined ? undefined : msSince(startedAtMs);
    } catch (error) {
      if (error instanceof AskFirst) {
        await this.database.execute(ASK, [rebuild.id, error.message]);
        return undefined;
      }
      const reason = waitsFor(error);
      if (reason === undefined) throw error;
      await this.database.execute(FOLLOW_AGAIN, [rebuild.id, reason]);
      return undefined;
    }
  }

  /** Returns when the pause began: it ends with the commit. */
  private async inTransaction(
    rebuild: Rebuild,
    model: RegisteredModel,
    tx: Transaction,
  ): Promise<number | undefined> {
    await tx.execute(`SET LOCAL lock_timeout = '${LOCK_TIMEOUT}'`);
    const [mine] = await tx.query(LOCK_REBUILD, [rebuild.id, rebuild.model]);
    if (!mine) return undefined;
    // Before live messages wait for it, and again when nothing can change any more.
    await this.refuseUnfit(rebuild, tx);
    const startedAtMs = performance.now();
    if (SWITCH_GUARDS.fence) await tx.query(LOCK_INBOX);
    await this.applyTail(rebuild, model, tx);
    await this.refuseLeftOut(rebuild, tx);
    await this.refuseUnfit(rebuild, tx);
    const target = await this.swap(rebuild, tx);
    const status = rebuild.direction === 'forward' ? 'switched' : 'rolled-back';
    await tx.execute(SWITCHED, [rebuild.id, status, target, msSince(startedAtMs)]);
    return startedAtMs;
  }

  private async applyTail(rebuild: Rebuild, model: RegisteredModel, tx: Transaction): Promise<void> {
    if ((await this.history.left(rebuild.id, tx)).length > 0)
      throw new NotNow('history is not read to its end; it catches up first');
    // In rounds: one lane may have more than its part, and large payloads are read in parts.
    for (let round = 1, left = MAX_TAIL; ; round++) {
      const behind = await this.source.behind(rebuild.id, tx);
      if (behind.length === 0) return;
      if (left <= 0 || round > MAX_ROUNDS)
        throw new NotNow('too many messages came while it was about to switch; it catches up first');
      const rows = await this.source.next(behind, Math.ceil(left / behind.length), model.types, tx);
      if (rows.some((row) => this.preparations.needed(model, row)))
        throw new NotNow('a message that came last needs its prepare; it catches up first');
      await this.replay.apply(rebuild, model, rows, new Map(), tx);
      left -= rows.length;
    }
  }

  private async refuseLeftOut({ id, options, direction }: Rebuild, tx: Transaction): Promise<void> {
    if (options.acceptFailures || direction === 'back') return;
    const [row] = await tx.query<{ count: number }>(LEFT_OUT, [id]);
    if (row!.count > 0)
      throw new AskFirst(`${row!.count} messages failed and were left out; "switch" accepts that`);
  }

  private async refuseUnfit({ id, model, target, direction }: Rebuild, tx: Transaction): Promise<void> {
    await this.refuseDependents(model, tx);
    const [lock] = await tx.query<{ taken: boolean }>(LOCK_MIGRATIONS);
    if (!lock!.taken) throw new NotNow('a replica runs migrations; it tries again');
    const [missing] = await tx.query<{ name: string }>(MISSING_MIGRATION(model, target), [id]);
    if (missing)
      throw new NotNow(
        `${target} lacks the migration ${missing.name} of ${model}: cancel ${
          direction === 'back' ? 'the rollback' : 'it, and rebuild with replicas that have it'
        }`,
      );
  }

  private async refuseDependents(living: string, tx: Transaction): Promise<void> {
    const [outside] = await tx.query<{ name: string }>(DEPENDENTS, [living]);
    if (outside)
      throw new NotNow(
        `${outside.name} would keep to the old tables; drop it, and create it again after the switch`,
      );
  }

  private async swap({ model, target, direction }: Rebuild, tx: Transaction): Promise<string> {
    const kept = direction === 'forward' ? previousSchema(model) : nextSchema(model);
    await tx.execute(`ALTER SCHEMA ${model} RENAME TO ${kept}`);
    await tx.execute(`ALTER SCHEMA ${target} RENAME TO ${model}`);
    return kept;
  }
}

function waitsFor(error: unknown): string | undefined {
  if (error instanceof NotNow) return error.message;
  if (codeOf(error) === LOCK_NOT_AVAILABLE)
    return `a batch of live messages held its lanes for longer than ${LOCK_TIMEOUT}; it tries again`;
  if (error instanceof ApplyFailed && !isEngineDatabaseAway(error.reason))
    return 'one of the last messages failed; it is tried again, and stops the rebuild if it fails for good';
  return undefined;
}

function msSince(startedAtMs: number): number {
  return Math.ceil(performance.now() - startedAtMs);
}
