import { isDeepStrictEqual } from 'node:util';
import { Injectable } from '@nestjs/common';
import { SettingsError } from '../config/settings.ts';
import type { Transaction } from '../database/transaction.ts';
import { AuditLog } from '../http/audit/audit-log.ts';
import { DEFAULT_LANES, modeOf, storedDefinition } from '../listeners/effective-definition.ts';
import { type ListenerContent, type ListenerRow, ListenersStore } from '../listeners/listeners-store.ts';
import {
  type Confidential,
  ConfidentialBox,
  NOTHING,
  type OpenResult,
} from '../listeners/secrets/confidential.ts';
import { NoMasterKey } from '../listeners/secrets/master-keys.ts';
import { rotated } from '../listeners/secrets/signing-secrets.ts';
import { newSecret } from '../webhooks/webhook-request.ts';
import { BY } from './file-origin.ts';
import type { ListenerEntry } from './read-definitions-file.ts';
import type { LineFault } from './yaml-lines.ts';

interface Changes {
  readonly created: string[];
  readonly replaced: string[];
  readonly removed: string[];
}

/**
 * The listeners of the file. Listeners created by API are not changed. The file does not define the state: a paused
 * listener stays paused.
 */
@Injectable()
export class ListenerEntries {
  constructor(
    private readonly store: ListenersStore,
    private readonly box: ConfidentialBox,
    private readonly audit: AuditLog,
  ) {}

  /** Adds to `faults` what cannot be applied; then the transaction must not be committed. */
  async apply(entries: readonly ListenerEntry[], faults: LineFault[], tx: Transaction): Promise<Changes> {
    const { now } = await this.store.revision(tx);
    const changes: Changes = { created: [], replaced: [], removed: [] };
    for (const entry of entries) {
      const row = await this.store.findAny(entry.name, tx);
      const fault = await this.put(entry, row, now, changes, tx);
      if (fault) faults.push({ line: entry.line, detail: `listener ${entry.name} ${fault}` });
    }
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
    const fault = row && (await this.switchMode(entry, row, tx));
    if (fault) return fault;
    const content = await this.content(
      entry,
      confidentialOf(entry, [{ secret: entry.secret ?? newSecret() }]),
    );
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
    const fault = await this.switchMode(entry, row, tx);
    if (fault) return fault;
    const opened = await this.box.open(row);
    if (opened.kind === 'locked' && entry.secret === undefined)
      return `has secrets that cannot be read (${opened.reason}); put that key back into SECRETS_KEYS, or give it a secret here`;
    const before = opened.kind === 'opened' ? opened.content.secrets : [];
    // A listener that was pulled until now has none.
    const secret = entry.secret ?? (before.length === 0 ? newSecret() : undefined);
    const isNew = secret !== undefined && secret !== before[0]?.secret;
    const confidential = confidentialOf(entry, isNew ? rotated(before, secret, now) : before);
    const content = await this.content(entry, confidential);
    const changed = changedFields(row, opened, content, confidential);
    if (changed.length === 0) return undefined;
    await this.store.replace(content, BY, tx);
    const reason = `changed: ${changed.join(', ')}`;
    await this.audit.record({ by: BY, action: 'listener.put', target: entry.name, reason }, tx);
    changes.replaced.push(entry.name);
    return undefined;
  }

  /** Returns why the entry cannot have the mode that it has, if so. */
  private async switchMode(
    { definition }: ListenerEntry,
    row: ListenerRow,
    tx: Transaction,
  ): Promise<string | undefined> {
    const [before, mode] = [modeOf(row.definition), modeOf(definition)];
    if (before === mode || (await this.store.switchMode(row.number, mode, tx))) return undefined;
    return `has messages pending in the mode "${before}"; keep that mode until there are none, or rename it`;
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

function confidentialOf({ definition }: ListenerEntry, secrets: Confidential['secrets']): Confidential {
  const { headers = {}, url = '', credentials } = definition;
  if (modeOf(definition) !== 'webhook') return { ...NOTHING, credentials };
  return { secrets, headers, url };
}

/** Names only: values may be credentials. Confidential fields are compared decrypted: the ciphertext differs every time. */
function changedFields(
  row: ListenerRow,
  opened: OpenResult,
  content: ListenerContent,
  { secrets, headers, url, credentials }: Confidential,
): string[] {
  const before = opened.kind === 'opened' ? opened.content : undefined;
  const old = {
    ...{ ...row.definition, urlOrigin: undefined, url: before?.url, headers: before?.headers },
    credentials: before?.credentials,
    secret: [row.secret_from, before?.secrets],
  };
  const now = {
    ...{ ...content.definition, urlOrigin: undefined, url, headers },
    credentials,
    secret: [content.secretFrom, secrets],
  };
  const fields = Object.keys({ ...old, ...now }) as (keyof typeof now)[];
  return fields.filter((field) => !isDeepStrictEqual(old[field], now[field])).sort();
}
