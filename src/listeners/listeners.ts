import { Inject, Injectable } from '@nestjs/common';
import { Loops } from '../clock/loops.ts';
import type { Transaction } from '../database/transaction.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { termsOf } from './effective-definition.ts';
import type { Listener } from './listener.ts';
import { type ListenerRow, ListenersStore } from './listeners-store.ts';
import { type Confidential, ConfidentialBox, type OpenResult } from './secrets/confidential.ts';
import { keyIdOf } from './secrets/sealed-box.ts';
import { signingNow } from './secrets/signing-secrets.ts';
import { TypeIndex } from './type-patterns.ts';

/** A change must take effect on every replica within 2 s. */
const REFRESH_MS = 1_000;
/** The actor in the audit log when the service itself changes a listener. */
const ENGINE = 'sluice';

/** All listeners at one revision. */
interface ListenerSnapshot {
  readonly revision: number;
  readonly listeners: readonly Listener[];
  readonly byNumber: ReadonlyMap<number, Listener>;
  readonly byName: ReadonlyMap<string, Listener>;
  readonly index: TypeIndex<Listener>;
  readonly deleted: ReadonlySet<number>;
  /** When the next signing secret expires, by the database's clock. */
  readonly nextExpiryMs: number;
  /** Listeners whose secrets cannot be read: they are retried at each refresh, because the missing key may be added. */
  readonly locked: number;
}

/**
 * All listeners as of the last refresh, from memory. They stay in memory while the database is away: a fan-out never misses a
 * listener because of an error.
 */
@Injectable()
export class Listeners {
  private snapshot: ListenerSnapshot | undefined;
  private readonly watchers: (() => void)[] = [];
  /** By name; decrypted again only when the sealed text changed, or could not be decrypted before. */
  private opened = new Map<string, { readonly sealed: string; readonly opened: OpenResult }>();
  /** Number of the last refresh that was started, and of the last one that was applied. */
  private refreshes = 0;
  private applied = 0;

  constructor(
    private readonly store: ListenersStore,
    private readonly box: ConfidentialBox,
    @Inject(LOG) private readonly log: Log,
    loops: Loops,
  ) {
    loops.every('any', 'listeners', REFRESH_MS, () => this.refresh());
  }

  /** The listeners of a type, in any state: the deliveries of a paused one stay pending. */
  of(type: string): readonly Listener[] {
    return this.now.index.of(type);
  }

  all(): readonly Listener[] {
    return this.now.listeners;
  }

  byName(name: string): Listener | undefined {
    return this.now.byName.get(name);
  }

  byNumber(number: number): Listener | undefined {
    return this.now.byNumber.get(number);
  }

  /** Numbers of deleted listeners: their deliveries stay pending until they are created again. */
  deleted(): ReadonlySet<number> {
    return this.now.deleted;
  }

  /**
   * By the service itself, because of failures at the given revision; `inSameTransaction` runs in the same transaction. False: it was
   * no longer active, so another replica has already reported it; or it was changed since, and its earlier failures do not
   * count.
   */
  async disable(
    { name, revision }: Pick<Listener, 'name' | 'revision'>,
    reason: string,
    inSameTransaction: (tx: Transaction) => Promise<void> = async () => undefined,
  ): Promise<boolean> {
    const change = { from: ['active'] as const, reason, by: ENGINE, revision };
    const changed = await this.store.change(async (tx) => {
      if (!(await this.store.setState(name, 'disabled', change, tx))) return false;
      await inSameTransaction(tx);
      return true;
    });
    await this.refreshAfterChange();
    return changed;
  }

  /** For each listener with secrets, the id of the master key that its secrets are sealed with. */
  masterKeys(): string[] {
    return [...this.opened.values()].flatMap(({ sealed }) => keyIdOf(sealed) ?? []);
  }

  /** Called after each refresh that found a change. */
  onChange(watcher: () => void): void {
    this.watchers.push(watcher);
  }

  /** The change is stored: if the database is away now, this replica reads it later, like the others. */
  async refreshAfterChange(): Promise<void> {
    await this.refresh().catch(() => undefined);
  }

  /** Rejects if the listeners in memory are not those that this transaction sees. */
  stillCurrent(tx: Transaction): Promise<void> {
    return this.store.stillAt(this.now.revision, tx);
  }

  /** Cheap when nothing has changed. */
  async refresh(): Promise<void> {
    const refresh = ++this.refreshes;
    const { revision, now } = await this.store.revision();
    const isSame = this.snapshot?.revision === revision && now.getTime() < this.snapshot.nextExpiryMs;
    if (isSame && this.snapshot?.locked === 0) return;
    const [rows, deleted] = await Promise.all([this.store.live(), this.store.deletedNumbers()]);
    const snapshot = snapshotOf(await this.open(rows), deleted, revision, now);
    if (isSame && this.snapshot?.locked === snapshot.locked) return;
    // Two concurrent refreshes may end in reverse order: the later one counts.
    if (refresh < this.applied) return;
    this.applied = refresh;
    this.snapshot = snapshot;
    for (const watcher of this.watchers) watcher();
  }

  private get now(): ListenerSnapshot {
    if (!this.snapshot) throw new Error('listeners were not loaded yet');
    return this.snapshot;
  }

  private async open(rows: readonly ListenerRow[]): Promise<{ row: ListenerRow; opened: OpenResult }[]> {
    const before = this.opened;
    const open = async (row: ListenerRow) => {
      const known = before.get(row.name);
      if (known?.sealed === row.sealed && known.opened.kind === 'opened')
        return { row, opened: known.opened };
      const opened = await this.box.open(row);
      if (opened.kind === 'locked' && known?.sealed !== row.sealed) this.logLocked(row, opened.reason);
      return { row, opened };
    };
    const all = await Promise.all(rows.map(open));
    this.opened = new Map(all.map(({ row, opened }) => [row.name, { sealed: row.sealed, opened }]));
    return all;
  }

  private logLocked({ name }: ListenerRow, reason: string): void {
    this.log.error(
      { event: 'listeners.locked', listener: name, reason },
      'the secrets of a listener cannot be read; nothing is sent to it, its deliveries stay pending',
    );
  }
}

function snapshotOf(
  all: readonly { readonly row: ListenerRow; readonly opened: OpenResult }[],
  deleted: readonly number[],
  revision: number,
  now: Date,
): ListenerSnapshot {
  const listeners = all.map(({ row, opened }) => listenerOf(row, opened, now));
  const expiries = all.flatMap(({ opened }) => (opened.kind === 'opened' ? expiriesOf(opened.content) : []));
  return {
    revision,
    listeners,
    byNumber: new Map(listeners.map((listener) => [listener.number, listener])),
    byName: new Map(listeners.map((listener) => [listener.name, listener])),
    index: new TypeIndex(listeners),
    deleted: new Set(deleted),
    nextExpiryMs: Math.min(Number.POSITIVE_INFINITY, ...expiries.filter((ms) => ms > now.getTime())),
    locked: all.filter(({ opened }) => opened.kind === 'locked').length,
  };
}

/** A listener whose secrets cannot be read counts as disabled: receivers would refuse unsigned deliveries. */
export function listenerOf(row: ListenerRow, opened: OpenResult, now: Date): Listener {
  const { number, name, revision, lanes } = row;
  const terms = { number, name, revision, lanes, ...termsOf(row.definition) };
  if (opened.kind === 'locked') return { ...terms, state: 'disabled', url: '', headers: {}, secrets: [] };
  const { url, headers, secrets, credentials } = opened.content;
  return {
    ...terms,
    state: row.state,
    url,
    headers,
    broker: terms.broker && { ...terms.broker, credentials: credentials ?? {} },
    secrets: signingNow(secrets, now).map(({ secret }) => secret),
  };
}

function expiriesOf({ secrets }: Confidential): number[] {
  return secrets.flatMap(({ until }) => (until === undefined ? [] : [Date.parse(until)]));
}
