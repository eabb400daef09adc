import { setTimeout as pause } from 'node:timers/promises';
import { Module } from '@nestjs/common';
import type { MigrationInterface, QueryRunner } from 'typeorm';
import { Denormalizer } from '../src/contract/denormalizer.ts';
import type { Message } from '../src/contract/message.ts';
import { Defer, Refuse } from '../src/contract/outcomes.ts';
import type { ReadModel } from '../src/contract/read-model.ts';
import type { ReadModelTransaction } from '../src/contract/read-model-transaction.ts';
import { Database } from '../src/database/database.ts';

export const PLANNED_FAILURE = 'failed as planned';

/** What a message of a fault run does when it is applied. */
export interface Trouble {
  /** Its first attempts that throw. */
  readonly fails?: number;
  readonly refuses?: boolean;
  /** Puts itself off until this long after it was received. */
  readonly defersMs?: number;
  /** Ends its process, this many times. */
  readonly kills?: number;
  /** Ends its own connection, this many times. */
  readonly cuts?: number;
  /** Stays in its transaction for a while. */
  readonly takesMs?: number;
  /** Waits outside first, before it is applied. */
  readonly preparesMs?: number;
  /** Sends another message to this key. */
  readonly sendsTo?: string;
}

/**
 * The witness: a hash over everything applied to a key, in the order applied, and one row per application, which
 * nothing keeps from being two. What a message did outside any transaction is remembered in `deed`.
 */
class Chain1763251390001 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query('CREATE TABLE chain (key text PRIMARY KEY, n integer NOT NULL, hash text NOT NULL)');
    await runner.query(
      'CREATE TABLE effect (id text NOT NULL, key text NOT NULL, n integer NOT NULL, attempt integer NOT NULL)',
    );
    await runner.query(
      `CREATE TABLE deed (id text NOT NULL, what text NOT NULL, attempt integer NOT NULL,
                          at timestamptz NOT NULL DEFAULT clock_timestamp())`,
    );
    await runner.query('CREATE INDEX deed_id ON deed (id)');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE deed, effect, chain');
  }
}

const LINK = `
  WITH linked AS (
    INSERT INTO chain (key, n, hash) VALUES ($1, 1, md5($2))
    ON CONFLICT (key) DO UPDATE SET n = chain.n + 1, hash = md5(chain.hash || $2)
    RETURNING n
  )
  INSERT INTO effect (id, key, n, attempt) SELECT $2, $1, n, $3 FROM linked`;

abstract class Chain {
  constructor(private readonly database: Database) {}

  async apply(message: Message<Trouble | null>, tx: ReadModelTransaction): Promise<void> {
    const trouble = message.payload ?? {};
    if (trouble.fails) await this.remember(message, 'try');
    await tx.query(LINK, [message.key, message.id, message.attempt]);
    if (trouble.takesMs) await tx.query('SELECT pg_sleep($1)', [trouble.takesMs / 1000]);
    if (trouble.refuses) throw new Refuse('refused');
    if (trouble.defersMs) await this.deferUntil(message, trouble.defersMs, tx);
    if (message.attempt <= (trouble.fails ?? 0)) {
      await this.remember(message, 'fail');
      throw new Error(PLANNED_FAILURE);
    }
    if (await this.does(message, 'kill', trouble.kills)) process.kill(process.pid, 'SIGKILL');
    if (await this.does(message, 'cut', trouble.cuts)) {
      await tx.query('SELECT pg_terminate_backend(pg_backend_pid())');
    }
    if (trouble.sendsTo)
      await tx.send({ type: 'sent', key: trouble.sendsTo, payload: { parent: message.id } });
  }

  /** By the database's clock: the replica's own may be wrong. */
  private async deferUntil({ receivedAt }: Message, ms: number, tx: ReadModelTransaction): Promise<void> {
    const [row] = await tx.query<{ early: boolean }>(
      `SELECT clock_timestamp() < $1::timestamptz + $2 * interval '1 millisecond' AS early`,
      [receivedAt.toISOString(), ms],
    );
    if (row!.early) throw new Defer('100ms', 'not yet');
  }

  private async remember({ id, attempt }: Message, what: string): Promise<void> {
    await this.database.query('INSERT INTO deed (id, what, attempt) VALUES ($1, $2, $3)', [
      id,
      what,
      attempt,
    ]);
  }

  /** Whether it is to be done once more; then it is written down first, for good. */
  private async does({ id, attempt }: Message, what: string, times: number | undefined): Promise<boolean> {
    if (!times) return false;
    const done = await this.database.query(
      `INSERT INTO deed (id, what, attempt)
       SELECT $1, $2, $4 WHERE (SELECT count(*) FROM deed WHERE id = $1 AND what = $2) < $3 RETURNING id`,
      [id, what, times, attempt],
    );
    return done.length > 0;
  }
}

@Denormalizer({ types: ['plain', 'edit', 'sent'], coalesce: { edit: 'edit' } })
class PlainChain extends Chain {
  constructor(database: Database) {
    super(database);
  }
}

/** Waits for something outside first; the messages of a key pass between the two. */
@Denormalizer({ types: ['slow'] })
class SlowChain extends Chain {
  constructor(database: Database) {
    super(database);
  }

  async prepare(message: Message<Trouble>, signal: AbortSignal): Promise<void> {
    await pause(message.payload.preparesMs ?? 0, undefined, { signal });
  }
}

@Module({ providers: [PlainChain, SlowChain] })
class ChainModule {}

/** The read model of a fault run; no build of the service has it. */
export const chain: ReadModel = { module: ChainModule, entities: [], migrations: [Chain1763251390001] };
