import { Global, Inject, Module, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { Database } from '../database/database.ts';
import { EgressGuard } from '../webhooks/egress-guard.ts';
import { WebhookSender } from '../webhooks/webhook-sender.ts';
import { ListenersFile } from './file/listeners-file.ts';
import { ListenerChanges } from './listener-changes.ts';
import { ListenerMetrics } from './listener-metrics.ts';
import { ListenersController } from './listeners.controller.ts';
import { Listeners } from './listeners.ts';
import { ListenersStore } from './listeners-store.ts';
import { Ping } from './ping.ts';
import { refuseShortLease } from './refuse-short-lease.ts';
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
    MasterKeys,
    ConfidentialBox,
    ListenersStore,
    Listeners,
    ListenerChanges,
    ListenersFile,
    ListenerMetrics,
    Ping,
    Reseal,
  ],
  exports: [Listeners, ListenerChanges, ListenersStore, ConfidentialBox, WebhookSender],
})
export class ListenersModule implements OnModuleInit, OnApplicationShutdown {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly file: ListenersFile,
    private readonly listeners: Listeners,
    private readonly sender: WebhookSender,
  ) {}

  /** Before any processor starts (at bootstrap): a message handled without the listeners would never be sent to them. */
  async onModuleInit(): Promise<void> {
    await this.file.reconcile();
    await this.listeners.refresh();
    refuseShortLease(this.settings.outboxLease, this.listeners.all());
  }

  async onApplicationShutdown(): Promise<void> {
    await this.sender.close();
  }
}

/** A listener must not make the service post to its own database. */
function portOfServer({ pool }: Database): number {
  return Number(new URL(pool.options.connectionString!).port || 5432);
}
