import { Inject, Injectable } from '@nestjs/common';
import type { SourceDefinition } from '../brokers/source-definition.ts';
import { SETTINGS_TOKEN, type Settings, SettingsError } from '../config/settings.ts';
import type { Transaction } from '../database/transaction.ts';
import { ListenersStore } from '../listeners/listeners-store.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { EgressGuard } from '../webhooks/egress-guard.ts';
import type { Changes } from './file-origin.ts';
import { GroupEntries } from './group-entries.ts';
import { ListenerEntries } from './listener-entries.ts';
import { type Definitions, type Entry, readDefinitionsFile } from './read-definitions-file.ts';
import { TopicEntries } from './topic-entries.ts';
import type { LineFault } from './yaml-lines.ts';

/** Applies LISTENERS_FILE when a replica starts: all of it or, if anything is wrong, nothing. */
@Injectable()
export class DefinitionsFile {
  /** They are read by the replicas that have the file. */
  sources: readonly Entry<SourceDefinition>[] = [];

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Pick<Settings, 'listenersFile' | 'outboxLease'>,
    @Inject(LOG) private readonly log: Log,
    private readonly store: ListenersStore,
    private readonly guard: EgressGuard,
    private readonly listeners: ListenerEntries,
    private readonly topics: TopicEntries,
    private readonly groups: GroupEntries,
  ) {}

  /** Throws a SettingsError with one line per error. */
  async reconcile(): Promise<void> {
    const path = this.settings.listenersFile;
    if (path === undefined) return;
    const urlRefusal = async (url: string) => {
      const verdict = await this.guard.checkEndpoint(url);
      return verdict.kind === 'refused' ? `is refused: ${verdict.reason}` : undefined;
    };
    const content = await readDefinitionsFile(path, {
      urlRefusal,
      checkServer: (host, port) => this.guard.checkServer(host, port),
      leaseMs: this.settings.outboxLease,
    });
    if (content.kind === 'invalid') throw new SettingsError(content.faults);
    this.sources = content.definitions.sources ?? [];
    const changes = await this.store.change((tx) => this.apply(content.definitions, path, tx));
    this.log.info({ event: 'definitions.reconciled', file: path, ...changes }, 'LISTENERS_FILE was applied');
    this.reportKept('topic', changes.topics);
    this.reportKept('group', changes.groups);
  }

  private async apply({ listeners, topics, groups }: Definitions, path: string, tx: Transaction) {
    const faults: LineFault[] = [];
    const defined = (topics ?? []).map(({ name }) => name);
    const changes = {
      listeners: listeners && (await this.listeners.apply(listeners, faults, tx)),
      topics: topics && (await this.topics.apply(topics, faults, tx)),
      groups: groups && (await this.groups.apply(groups, defined, faults, tx)),
    };
    if (faults.length === 0) return changes;
    const byLine = faults.toSorted((a, b) => a.line - b.line);
    throw new SettingsError(byLine.map(({ line, detail }) => `${path}:${line}: ${detail}`));
  }

  private reportKept(what: 'topic' | 'group', changes: Changes | undefined): void {
    for (const name of changes?.kept ?? [])
      this.log.warn(
        { event: 'definitions.kept', [what]: name },
        `LISTENERS_FILE no longer has this ${what}; it stays, with its data: delete it by DELETE /v1/${what}s/${name}, or put it back into the file`,
      );
  }
}
