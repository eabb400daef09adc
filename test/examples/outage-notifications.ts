import { Module } from '@nestjs/common';
import { IsInt, IsString } from 'class-validator';
import type { MigrationInterface, QueryRunner } from 'typeorm';
import {
  Denormalizer,
  type Message,
  type ReadModel,
  type ReadModelTransaction,
} from '../../src/contract/index.ts';

/*
 * The queues of the source document, "Архітектура черг для системи сповіщень VOE": every ten minutes the outages of all
 * subscribed addresses are fetched; changes are sent to everybody who lives there, one message each, through a
 * bot that may send 30 messages a second, and one a second to a chat.
 *
 * QueueManager is the denormalizer of the tick, update-queue the messages it sends, UpdateProcessor their denormalizer,
 * notification-queue the messages that one sends, NotificationProcessor a listener.
 */

export const SUBSCRIBED = 'urn:voe:subscriptions/added';
export const TICK = 'urn:voe:schedule/tick';
export const UPDATE = 'urn:voe:updates/requested';
export const NOTIFICATION = 'urn:voe:notifications/outages-changed';

/** Where outages are fetched from; a test points it at its own server. */
export const source = { url: '' };

class Subscription {
  @IsInt() userId: number;
  @IsString() subscriptionArgs: string;
  @IsString() alias: string;
}

class Update {
  @IsString() subscriptionArgs: string;
}

interface Outage {
  readonly from: string;
  readonly to: string;
}

@Denormalizer({ types: [SUBSCRIBED], payload: Subscription })
class SubscriptionDenormalizer {
  async apply({ payload }: Message<Subscription>, tx: ReadModelTransaction): Promise<void> {
    await tx.query(
      'INSERT INTO outage_subscription (user_id, args, alias) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING',
      [payload.userId, payload.subscriptionArgs, payload.alias],
    );
  }
}

/** E1: one update for each address, however many live there. */
@Denormalizer({ types: [TICK] })
class TickDenormalizer {
  async apply(_tick: Message, tx: ReadModelTransaction): Promise<void> {
    const rows = await tx.query<{ args: string }>(
      'SELECT DISTINCT args FROM outage_subscription ORDER BY args',
    );
    for (const { args } of rows)
      await tx.send({ type: UPDATE, key: args, payload: { subscriptionArgs: args } });
  }
}

/** E3: fetched before and outside the transaction; compared, stored and reported within it. */
@Denormalizer({ types: [UPDATE], payload: Update })
class UpdateDenormalizer {
  async prepare({ payload }: Message<Update>, signal: AbortSignal): Promise<Outage[]> {
    const response = await fetch(`${source.url}?${payload.subscriptionArgs}`, { signal });
    if (!response.ok) throw new Error(`the source responded ${response.status}`);
    return (await response.json()) as Outage[];
  }

  async apply({ payload }: Message<Update>, tx: ReadModelTransaction, outages: Outage[]): Promise<void> {
    const { subscriptionArgs: args } = payload;
    const changed = await tx.query(
      `INSERT INTO outage (args, data) VALUES ($1, $2)
       ON CONFLICT (args) DO UPDATE SET data = EXCLUDED.data, updated_at = now() WHERE outage.data <> EXCLUDED.data
       RETURNING args`,
      [args, JSON.stringify(outages)],
    );
    if (changed.length === 0) return;
    const users = await tx.query<{ user_id: number; alias: string }>(
      'SELECT user_id, alias FROM outage_subscription WHERE args = $1 ORDER BY user_id',
      [args],
    );
    for (const { user_id: userId, alias } of users) {
      const notification = { userId, alias, subscriptionArgs: args, data: outages };
      await tx.send({ type: NOTIFICATION, key: `chat-${userId}`, payload: notification });
    }
  }
}

class Outages1763251400004 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE outage_subscription (
        user_id integer NOT NULL,
        args    text    NOT NULL,
        alias   text    NOT NULL,
        PRIMARY KEY (args, user_id)
      )`);
    await runner.query(`
      CREATE TABLE outage (
        args       text        PRIMARY KEY,
        data       jsonb       NOT NULL,
        updated_at timestamptz NOT NULL DEFAULT now()
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE outage');
    await runner.query('DROP TABLE outage_subscription');
  }
}

@Module({ providers: [SubscriptionDenormalizer, TickDenormalizer, UpdateDenormalizer] })
class OutagesModule {}

export const outages: ReadModel = {
  name: 'outages',
  module: OutagesModule,
  entities: [],
  migrations: [Outages1763251400004],
};

/** NotificationProcessor: what Telegram allows, and what its responses mean. */
export const TELEGRAM = {
  types: ['urn:voe:notifications/*'],
  timeout: '5s',
  // Retries up to three times; here as soon as the chat may get another.
  retrySchedule: ['1ms', '1ms'],
  terminalStatuses: [400, 403],
  rateLimit: { perSecond: 30, burst: 30, perKey: { perSecond: 1 } },
  disableAfter: { status: 403, times: 5 },
};
