import { isDeepStrictEqual } from 'node:util';
import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings, SettingsError } from '../../config/settings.ts';
import type { Transaction } from '../../database/transaction.ts';
import { AuditLog } from '../../http/audit/audit-log.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { EgressGuard } from '../../webhooks/egress-guard.ts';
import { newSecret } from '../../webhooks/signature.ts';
import { DEFAULT_LANES, storedDefinition } from '../effective-definition.ts';
import { type ListenerContent, type ListenerRow, ListenersStore } from '../listeners-store.ts';
import { type Confidential, ConfidentialBox, type Opened } from '../secrets/confidential.ts';
import { NoMasterKey } from '../secrets/master-keys.ts';
import { rotated } from '../secrets/signing-secrets.ts';
import { type ListenerEntry, readListenersFile } from './read-listeners-file.ts';

/** The actor in the audit log for changes by the file. */
const BY = 'LISTENERS_FILE';

interface Changes {
  readonly created: string[];
  readonly replaced: string[];
  readonly removed: string[];
}

/**
 * Applies LISTENERS_FILE when a replica starts: all of it or, if anything is wrong, nothing. Listeners created by API are not
 * changed. The file does not define the state: a paused listener stays paused.
 */
@Injectable()
export class ListenersFile {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    @Inject(LOG) private readonly log: Log,
    private readonly store: ListenersStore,
    private readonly box: ConfidentialBox,
    private readonly guard: EgressGuard,
    private readonly audit: AuditLog,
  ) {}

  /** Throws a SettingsError with one line per error. */
  async reconcile(): Promise<void> {
    const path = this.settings.listenersFile;
    if (path === undefined) return;
    const urlRefusal = async (url: string) => {
      const verdict = await this.guard.checkEndpoint(url);
      return verdict.kind === 'refused' ? `is refused: ${verdict.reason}` : undefined;
    };
    const content = await readListenersFile(path, { urlRefusal, leaseMs: this.settings.outboxLease });
    if (content.kind === 'invalid') throw new SettingsError(content.faults);
    const changes = await this.store.change((tx) => this.apply(content.entries, path, tx));
    this.log.info(
      { event: 'listeners.reconciled', file: path, ...changes },
      'the listeners file was applied',
    );
  }

  private async apply(entries: readonly ListenerEntry[], path: string, tx: Transaction): Promise<Changes> {
    const { now } = await this.store.revision(tx);
    const changes: Changes = { created: [], replaced: [], removed: [] };
    const faults: string[] = [];
    for (const entry of entries) {
      const row = await this.store.findAny(entry.name, tx);
      const fault = await this.put(entry, row, now, changes, tx);
      if (fault) faults.push(`${path}:${entry.line}: listener ${entry.name} ${fault}`);
    }
    if (faults.length) throw new SettingsError(faults);
    const wanted = new Set(entries.map(({ name }) => name));
    for (const { name, origin } of await this.store.live(tx)) {
      if (origin !== 'file' || wanted.has(name)) continue;
      await this.store.delete(name, BY, tx);
      await this.audit.record({ by: BY, action: 'listener.delete', target: name }, tx);
      changes.removed.push(name);
    }
    return changes;
  }

  /** Returns why the entry cannot be applied, if so. */
  private async put(
    entry: ListenerEntry,
    row: ListenerRow | undefined,
    now: Date,
    changes: Changes,
    tx: Transaction,
  ): Promise<string | undefined> {
    const { name, definition } = entry;
    const lanes = definition.lanes ?? row?.lanes ?? DEFAULT_LANES;
    if (row && row.lanes !== lanes)
      return `has ${row.lanes} lanes, which cannot change; leave lanes out, or rename it`;
    if (row && !row.deleted_at) {
      if (row.origin === 'api') return 'was created by API; rename this one, or delete that one first';
      return this.replace(entry, row, now, changes, tx);
    }
    const content = await this.content(entry, {
      secrets: [{ secret: entry.secret ?? newSecret() }],
      headers: definition.headers ?? {},
      url: definition.url,
    });
    if (row) await this.store.bringBack(content, 'file', BY, tx);
    else await this.store.insert(content, { lanes, origin: 'file', by: BY }, tx);
    await this.audit.record({ by: BY, action: 'listener.put', target: name, reason: 'created' }, tx);
    changes.created.push(name);
    return undefined;
  }

  private async replace(
    entry: ListenerEntry,
    row: ListenerRow,
    now: Date,
    changes: Changes,
    tx: Transaction,
  ): Promise<string | undefined> {
    const opened = await this.box.open(row);
    if (opened.kind === 'locked' && entry.secret === undefined)
      return `has secrets that cannot be read (${opened.reason}); put that key back into SECRETS_KEYS, or give it a secret here`;
    const before = opened.kind === 'opened' ? opened.content.secrets : [];
    const isNew = entry.secret !== undefined && entry.secret !== before[0]?.secret;
    const secrets = isNew ? rotated(before, entry.secret!, now) : before;
    const { headers = {}, url } = entry.definition;
    const confidential = { secrets, headers, url };
    const content = await this.content(entry, confidential);
    const changed = changedFields(row, opened, content, confidential);
    if (changed.length === 0) return undefined;
    await this.store.replace(content, BY, tx);
    const reason = `changed: ${changed.join(', ')}`;
    await this.audit.record({ by: BY, action: 'listener.put', target: entry.name, reason }, tx);
    changes.replaced.push(entry.name);
    return undefined;
  }

  private async content(entry: ListenerEntry, confidential: Confidential): Promise<ListenerContent> {
    try {
      const sealed = await this.box.seal(entry.name, confidential);
      return {
        name: entry.name,
        definition: storedDefinition(entry.definition),
        sealed,
        secretFrom: entry.secret === undefined ? 'service' : 'file',
      };
    } catch (error) {
      throw error instanceof NoMasterKey ? new SettingsError([error.message]) : error;
    }
  }
}

/** Names only: values may be credentials. Confidential fields are compared decrypted: the ciphertext differs every time. */
function changedFields(
  row: ListenerRow,
  opened: Opened,
  content: ListenerContent,
  { secrets, headers, url }: Confidential,
): string[] {
  const before = opened.kind === 'opened' ? opened.content : undefined;
  const old = {
    ...{ ...row.definition, urlOrigin: undefined, url: before?.url, headers: before?.headers },
    secret: [row.secret_from, before?.secrets],
  };
  const now = {
    ...{ ...content.definition, urlOrigin: undefined, url, headers },
    secret: [content.secretFrom, secrets],
  };
  const fields = Object.keys({ ...old, ...now }) as (keyof typeof now)[];
  return fields.filter((field) => !isDeepStrictEqual(old[field], now[field])).sort();
}
