import { Global, Module, type OnApplicationShutdown } from '@nestjs/common';
import { BrokerSender } from '../brokers/broker-sender.ts';
import { Senders } from '../brokers/senders.ts';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { Database } from '../database/database.ts';
import { EgressGuard } from '../webhooks/egress-guard.ts';
import { WebhookSender } from '../webhooks/webhook-sender.ts';
import { ListenerChanges } from './listener-changes.ts';
import { ListenerMetrics } from './listener-metrics.ts';
import { ListenersController } from './listeners.controller.ts';
import { Listeners } from './listeners.ts';
import { ListenersStore } from './listeners-store.ts';
import { Ping } from './ping.ts';
import { ConfidentialBox } from './secrets/confidential.ts';
import { MasterKeys } from './secrets/master-keys.ts';
import { Reseal } from './secrets/reseal.ts';

/** Which endpoints receive which types, and how: defined by API and by file, known to every replica. */
@Global()
@Module({
  controllers: [ListenersController],
  providers: [
    {
      provide: EgressGuard,
      inject: [SETTINGS_TOKEN, Database],
      useFactory: (settings: Settings, database: Database) =>
        new EgressGuard({ allow: settings.egressAllow, refusedPorts: [portOfServer(database)] }),
    },
    {
      provide: WebhookSender,
      inject: [EgressGuard],
      useFactory: (guard: EgressGuard) => new WebhookSender(guard),
    },
    BrokerSender,
    Senders,
    MasterKeys,
    ConfidentialBox,
    ListenersStore,
    Listeners,
    ListenerChanges,
    ListenerMetrics,
    Ping,
    Reseal,
  ],
  exports: [Listeners, ListenerChanges, ListenersStore, ConfidentialBox, EgressGuard, Senders],
})
export class ListenersModule implements OnApplicationShutdown {
  constructor(
    private readonly webhooks: WebhookSender,
    private readonly brokers: BrokerSender,
    senders: Senders,
    listeners: Listeners,
  ) {
    listeners.onChange(() => senders.retain(listeners.all()));
  }

  async onApplicationShutdown(): Promise<void> {
    await Promise.all([this.webhooks.close(), this.brokers.close()]);
  }
}

/** A listener must not make the service post to its own database. */
function portOfServer({ pool }: Database): number {
  return Number(new URL(pool.options.connectionString!).port || 5432);
}
