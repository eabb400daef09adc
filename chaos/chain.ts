import { setTimeout as pause } from 'node:timers/promises';
import { Controller, Get, Module, Param } from '@nestjs/common';
import { DataSource, type MigrationInterface, type QueryRunner } from 'typeorm';
import { Denormalizer } from '../src/contract/denormalizer.ts';
import { Allow, Problem } from '../src/contract/index.ts';
import type { Message } from '../src/contract/message.ts';
import { Defer, Refuse } from '../src/contract/outcomes.ts';
import type { ReadModel } from '../src/contract/read-model.ts';
import type { ReadModelTransaction } from '../src/contract/read-model-transaction.ts';
import { Database } from '../src/database/database.ts';
import { QUIET } from './bed-settings.ts';

export const PLANNED_FAILURE = 'failed as planned';

/** What a message of a fault run does when it is applied: its payload. */
export interface Behaviour {
  /** How many of its first attempts throw. */
  readonly fails?: number;
  readonly refuses?: boolean;
  /** Throws until it has thrown this often, however its attempts are counted. */
  readonly heals?: number;
  /** Defers itself until this long after it was received. */
  readonly defersMs?: number;
  /** Kills its process, this many times. */
  readonly kills?: number;
  /** Terminates its own connection, this many times. */
  readonly cuts?: number;
  /** Keeps its transaction open this long. */
  readonly takesMs?: number;
  /** Waits this long in `prepare`, before the transaction. */
  readonly preparesMs?: number;
  /** Sends another message to this key. */
  readonly sendsTo?: string;
}

/**
 * The evidence: a hash over everything applied to a key, in the order applied, and one row per application without a unique
 * constraint, so that a second application shows.
 */
class Chain1763251390001 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query('CREATE TABLE chain (key text PRIMARY KEY, n integer NOT NULL, hash text NOT NULL)');
    await runner.query('CREATE TABLE effect (id text NOT NULL, key text NOT NULL, n integer NOT NULL)');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE effect, chain');
  }
}

/** What is no part of the fold, written outside the transaction of the message: a rebuild must not change it. */
export const CREATE_ATTEMPT_LOG = `
  CREATE TABLE chaos.attempt_log (id text NOT NULL, what text NOT NULL, attempt integer NOT NULL,
                                  at timestamptz NOT NULL DEFAULT clock_timestamp());
  CREATE INDEX attempt_log_id ON chaos.attempt_log (id);`;

/** Returns whether it was the living read model that it changed. */
const LINK = `
  WITH linked AS (
    INSERT INTO chain (key, n, hash) VALUES ($1, 1, md5($2))
    ON CONFLICT (key) DO UPDATE SET n = chain.n + 1, hash = md5(chain.hash || $2)
    RETURNING n
  )
  INSERT INTO effect (id, key, n) SELECT $2, $1, n FROM linked RETURNING current_schema() = 'chain' AS living`;

abstract class Chain {
  constructor(private readonly database: Database) {}

  async apply(message: Message<Behaviour | null>, tx: ReadModelTransaction): Promise<void> {
    const behaviour = message.payload ?? {};
    const { fails = 0, refuses = false, heals = 0 } = behaviour;
    const [linked] = await tx.query<{ living: boolean }>(LINK, [message.key, message.id]);
    if (!linked!.living) return this.replay(message, behaviour, tx);
    if (fails || refuses || heals) await this.record(message, 'try');
    if (behaviour.takesMs) await tx.query('SELECT pg_sleep($1)', [behaviour.takesMs / 1000]);
    if (refuses) throw new Refuse('refused');
    if (behaviour.defersMs) await this.deferUntil(message, behaviour.defersMs, tx);
    if (message.attempt <= fails || (await this.failures(message, heals)) < heals) {
      await this.record(message, 'fail');
      throw new Error(PLANNED_FAILURE);
    }
    if (await this.shouldRepeat(message, 'kill', behaviour.kills)) process.kill(process.pid, 'SIGKILL');
    if (await this.shouldRepeat(message, 'cut', behaviour.cuts)) {
      await tx.query('SELECT pg_terminate_backend(pg_backend_pid())');
    }
    if (behaviour.sendsTo)
      await tx.send({ type: 'sent', key: behaviour.sendsTo, payload: { parent: message.id } });
  }

  /** In a rebuild: what became a dead letter once fails once more; what is sent must not be sent again. */
  private async replay(
    message: Message<Behaviour | null>,
    { heals, sendsTo }: Behaviour,
    tx: ReadModelTransaction,
  ): Promise<void> {
    if (heals && (await this.shouldRepeat(message, 'replay', 1))) throw new Error(PLANNED_FAILURE);
    if (sendsTo) await tx.send({ type: 'sent', key: sendsTo, payload: { parent: message.id } });
  }

  /** By the database's clock: the replica's own clock may be off. */
  private async deferUntil({ receivedAt }: Message, ms: number, tx: ReadModelTransaction): Promise<void> {
    const [row] = await tx.query<{ early: boolean }>(
      `SELECT clock_timestamp() < $1::timestamptz + $2 * interval '1 millisecond' AS early`,
      [receivedAt.toISOString(), ms],
    );
    if (row!.early) throw new Defer('100ms', 'not yet');
  }

  private async failures({ id }: Message, heals: number): Promise<number> {
    if (heals === 0) return 0;
    const [row] = await this.database.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM chaos.attempt_log WHERE id = $1 AND what = 'fail'`,
      [id],
    );
    return row!.n;
  }

  private async record({ id, attempt }: Message, what: string): Promise<void> {
    await this.database.query('INSERT INTO chaos.attempt_log (id, what, attempt) VALUES ($1, $2, $3)', [
      id,
      what,
      attempt,
    ]);
  }

  /** Whether the action has been done fewer than `times` times; it is recorded first, in a transaction of its own. */
  private async shouldRepeat(
    { id, attempt }: Message,
    what: string,
    times: number | undefined,
  ): Promise<boolean> {
    if (!times) return false;
    const done = await this.database.query(
      `INSERT INTO chaos.attempt_log (id, what, attempt)
       SELECT $1, $2, $4 WHERE (SELECT count(*) FROM chaos.attempt_log WHERE id = $1 AND what = $2) < $3 RETURNING id`,
      [id, what, times, attempt],
    );
    return done.length > 0;
  }
}

@Denormalizer({ types: ['plain', 'edit', 'sent', QUIET], coalesce: { edit: 'edit' } })
class PlainChain extends Chain {
  constructor(database: Database) {
    super(database);
  }
}

/** Waits in `prepare`. A key has messages of both chains, in one order. */
@Denormalizer({ types: ['slow'], rebuild: { prepare: 'skip' } })
class SlowChain extends Chain {
  constructor(database: Database) {
    super(database);
  }

  async prepare(message: Message<Behaviour>, signal: AbortSignal): Promise<void> {
    await pause(message.payload.preparesMs ?? 0, undefined, { signal });
  }
}

/** A link that a reader sees, and how many keys there are. */
export interface ChainView {
  readonly n: number;
  readonly hash: string;
  readonly keys: number;
}

@Controller('v1/chains')
class ChainsController {
  constructor(private readonly dataSource: DataSource) {}

  @Get(':key')
  @Allow('read')
  async one(@Param('key') key: string): Promise<ChainView> {
    const [found] = await this.dataSource.query(
      'SELECT n, hash, (SELECT count(*)::int FROM chain) AS keys FROM chain WHERE key = $1',
      [key],
    );
    if (!found) throw new Problem('not-found', 'Nothing was applied to this key.');
    return found;
  }
}

@Module({ controllers: [ChainsController], providers: [PlainChain, SlowChain] })
class ChainModule {}

/** The read model of a fault run; it is not part of the service. */
export const chain: ReadModel = {
  name: 'chain',
  module: ChainModule,
  entities: [],
  migrations: [Chain1763251390001],
};
