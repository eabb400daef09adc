import { Inject, Module, type OnModuleInit } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { Listeners } from '../listeners/listeners.ts';
import { refuseShortLease } from '../listeners/refuse-short-lease.ts';
import { Topics } from '../topics/topics.ts';
import { DefinitionsFile } from './definitions-file.ts';
import { GroupEntries } from './group-entries.ts';
import { ListenerEntries } from './listener-entries.ts';
import { TopicEntries } from './topic-entries.ts';

/** Listeners, topics and groups from a file; and the first load of what the database has. */
@Module({
  providers: [DefinitionsFile, ListenerEntries, TopicEntries, GroupEntries],
  exports: [DefinitionsFile],
})
export class DefinitionsModule implements OnModuleInit {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly file: DefinitionsFile,
    private readonly listeners: Listeners,
    private readonly topics: Topics,
  ) {}

  /**
   * Before any processor starts (at bootstrap): a message handled without the listeners and topics would never be in them.
   */
  async onModuleInit(): Promise<void> {
    await this.file.reconcile();
    await this.listeners.refresh();
    await this.topics.refresh();
    refuseShortLease(this.settings.outboxLease, this.listeners.all());
  }
}
