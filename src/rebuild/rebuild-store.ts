import { Injectable } from '@nestjs/common';
import { Database } from '../database/database.ts';
import { codeOf } from '../database/errors.ts';
import type { Transaction } from '../database/transaction.ts';
import { AuditLog } from '../http/audit/audit-log.ts';
import { Problem } from '../http/problems.ts';
import type { RegisteredModel } from './read-model-registry.ts';
import { nextSchema, type Rebuild, type RebuildOptions, type Status } from './rebuild.ts';
import { RebuildStatements } from './rebuild-statements.ts';

export type Control = 'pause' | 'resume' | 'cancel' | 'switch' | 'rollback' | 'drop';

const LOCK_NOT_AVAILABLE = '55P03';

/** From which states an operator may ask for what. */
const ALLOWED: Readonly<Record<Control, readonly Status[]>> = {
  pause: ['building', 'replaying', 'comparing', 'ready', 'switching'],
  resume: ['building', 'replaying', 'comparing', 'ready', 'switching', 'failed'],
  cancel: ['building', 'replaying', 'comparing', 'ready', 'switching', 'failed'],
  switch: ['ready', 'rolled-back'],
  rollback: ['switched'],
  drop: ['switched', 'rolled-back'],
};

/** What operators do to rebuilds. Each action is one transaction with its entry of the audit log. */
@Injectable()
export class RebuildStore {
  constructor(
    private readonly database: Database,
    private readonly statements: RebuildStatements,
    private readonly audit: AuditLog,
  ) {}

  async start(
    { name: model, migrations, types, version }: RegisteredModel,
    options: RebuildOptions,
    by: string,
  ): Promise<void> {
    const started = this.database.transaction(async (tx) => {
      await tx.execute(`SET LOCAL lock_timeout = '10s'`);
      await this.statements.lockHistoryChanges(tx);
      const id = await this.statements.create(tx, {
        model,
        target: nextSchema(model),
        options,
        migrations,
        version,
        by,
      });
      if (id === undefined)
        throw new Problem(
          'conflict',
          `A rebuild of ${model} is open, or the schema that it replaced is kept: cancel or drop it first.`,
        );
      if (!options.partial) await this.refuseIncomplete(types, tx);
      await this.audit.record({ by, action: 'read-model.rebuild', target: model, filter: options }, tx);
    });
    await refusedIfBusy(
      started,
      'Retention, the upkeep of history, or an import is busy right now; try again.',
    );
  }

  async control({ name: model, version }: RegisteredModel, what: Control, by: string): Promise<void> {
    const done = this.database.transaction(async (tx) => {
      await tx.execute(`SET LOCAL lock_timeout = '5s'`);
      const rebuild = await this.open(model, tx);
      if (!ALLOWED[what].includes(rebuild.status))
        throw new Problem('conflict', `The rebuild of ${model} is ${rebuild.status}: it cannot ${what} now.`);
      await this.act(rebuild, what, version, tx);
      await this.audit.record({ by, action: `read-model.${what}`, target: model }, tx);
    });
    await refusedIfBusy(
      done,
      `The rebuild of ${model}, or a reader of its tables, is busy right now; try again.`,
    );
  }

  /** Leaves out the message at which the rebuild stopped. */
  async skip(model: string, reason: string, by: string): Promise<void> {
    await this.database.transaction(async (tx) => {
      const rebuild = await this.open(model, tx);
      const failure = await this.statements.failureOf(rebuild.id, tx);
      if (rebuild.status !== 'failed' || failure?.position === undefined)
        throw new Problem('conflict', `The rebuild of ${model} has not stopped at a message.`);
      await this.statements.skip(rebuild.id, failure, by, reason, tx);
      await this.audit.record(
        { by, action: 'read-model.skip', target: `${model}: ${failure.id}`, reason },
        tx,
      );
    });
  }

  private async refuseIncomplete(types: readonly string[], tx: Transaction): Promise<void> {
    const since = await this.statements.incompleteBefore(types, tx);
    if (since)
      throw new Problem(
        'conflict',
        `History is complete only from ${since.toISOString()}: older messages of its types were removed, and their effects would be missing. ` +
          'To rebuild from what there is, send "partial": true (sluice rebuild --from-partial-history).',
      );
  }

  private async open(model: string, tx: Transaction): Promise<Rebuild> {
    const rebuild = await this.statements.lockOpen(model, tx);
    if (!rebuild) throw new Problem('not-found', `No rebuild of ${model} is open.`);
    return rebuild;
  }

  private async act(rebuild: Rebuild, what: Control, version: string, tx: Transaction): Promise<void> {
    const { id, direction } = rebuild;
    const undoing = what === 'cancel' && direction === 'back';
    if (what === 'resume' && rebuild.status === 'failed') await this.statements.tryAgain(id, tx);
    else if (what === 'pause' || what === 'resume') await this.statements.setPaused(id, what === 'pause', tx);
    else if (what === 'rollback') await this.statements.follow(id, 'back', version, tx);
    else if (what === 'switch') await this.statements.follow(id, 'forward', version, tx);
    else if (undoing) await this.statements.stayOnSwitched(id, tx);
    else await this.statements.end(rebuild, what === 'cancel' ? 'cancelled' : 'dropped', tx);
  }
}

async function refusedIfBusy(work: Promise<void>, detail: string): Promise<void> {
  await work.catch((error) => {
    throw codeOf(error) === LOCK_NOT_AVAILABLE ? new Problem('conflict', detail) : error;
  });
}
