import { Inject, Injectable } from '@nestjs/common';
import { Loops } from '../clock/loops.ts';
import type { Transaction } from '../database/transaction.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { termsOf } from './effective-definition.ts';
import type { Listener } from './listener.ts';
import { type ListenerRow, ListenersStore } from './listeners-store.ts';
import { type Confidential, ConfidentialBox, type Opened } from './secrets/confidential.ts';
import { keyIdOf } from './secrets/sealed-box.ts';
import { signingNow } from './secrets/signing-secrets.ts';
import { TypeIndex } from './type-patterns.ts';

/** A change must take effect on every replica within 2 s. */
const REFRESH_MS = 1_000;
/** Who changes a listener by itself. */
const ENGINE = 'sluice';

/** All listeners at one revision. */
interface Known {
  readonly revision: number;
  readonly listeners: readonly Listener[];
  readonly byNumber: ReadonlyMap<number, Listener>;
  readonly index: TypeIndex<Listener>;
  readonly deleted: ReadonlySet<number>;
  /** When the next secret stops to sign, by the database's clock. */
  readonly nextExpiryMs: number;
  /** How many have secrets that cannot be read: they are tried again at each look, the missing key may come. */
  readonly locked: number;
}

/**
 * Every listener as of a moment ago, from memory. What is known stays known while the database is away: a fan-out
 * never misses a listener because of an error.
 */
@Injectable()
export class Listeners {
  private known: Known | undefined;
  private readonly watchers: (() => void)[] = [];
  /** By name; opened anew only when the box is another one, or stayed shut. */
  private opened = new Map<string, { readonly sealed: string; readonly opened: Opened }>();
  private asked = 0;
  private taken = 0;

  constructor(
    private readonly store: ListenersStore,
    private readonly box: ConfidentialBox,
    @Inject(LOG) private readonly log: Log,
    loops: Loops,
  ) {
    loops.run('any', 'listeners', REFRESH_MS, async () => {
      await this.refresh();
      return 'idle';
    });
  }

  /** Who wants a type, in whatever state they are: what is owed to a paused one waits. */
  of(type: string): readonly Listener[] {
    return this.now.index.of(type);
  }

  all(): readonly Listener[] {
    return this.now.listeners;
  }

  byNumber(number: number): Listener | undefined {
    return this.now.byNumber.get(number);
  }

  /** Numbers of deleted listeners: what is owed to them waits for their return. */
  deleted(): ReadonlySet<number> {
    return this.now.deleted;
  }

  /**
   * By the engine, because of how it was when it failed; `along` goes with it. False: it was not active any more, so
   * somebody else has told already; or somebody has changed it since then, and what it did before does not count.
   */
  async disable(
    { name, revision }: Pick<Listener, 'name' | 'revision'>,
    reason: string,
    along: (tx: Transaction) => Promise<void> = async () => undefined,
  ): Promise<boolean> {
    const change = { from: ['active'] as const, reason, by: ENGINE, revision };
    const changed = await this.store.change(async (tx) => {
      if (!(await this.store.setState(name, 'disabled', change, tx))) return false;
      await along(tx);
      return true;
    });
    await this.refreshAfterChange();
    return changed;
  }

  /** The id of the master key that each is sealed with. */
  masterKeys(): string[] {
    return [...this.opened.values()].map(({ sealed }) => keyIdOf(sealed) ?? '');
  }

  /** Called after each change that this replica has learnt of. */
  onChange(watcher: () => void): void {
    this.watchers.push(watcher);
  }

  /** The change is stored: when the database goes away just now, this replica learns of it later, like the others. */
  async refreshAfterChange(): Promise<void> {
    await this.refresh().catch(() => undefined);
  }

  /** Rejects where what is known now is not what is stored, as this transaction sees it. */
  stillCurrent(tx: Transaction): Promise<void> {
    return this.store.stillAt(this.now.revision, tx);
  }

  /** Looks now; cheap when nothing has changed. */
  async refresh(): Promise<void> {
    const turn = ++this.asked;
    const { revision, now } = await this.store.revision();
    const isSame = this.known?.revision === revision && now.getTime() < this.known.nextExpiryMs;
    if (isSame && this.known?.locked === 0) return;
    const [rows, deleted] = await Promise.all([this.store.live(), this.store.deletedNumbers()]);
    const known = knownFrom(await this.open(rows), deleted, revision, now);
    if (isSame && this.known?.locked === known.locked) return;
    // Two looks at once may end in the other order: the later one counts.
    if (turn < this.taken) return;
    this.taken = turn;
    this.known = known;
    for (const watcher of this.watchers) watcher();
  }

  private get now(): Known {
    if (!this.known) throw new Error('listeners are not known yet');
    return this.known;
  }

  private async open(rows: readonly ListenerRow[]): Promise<{ row: ListenerRow; opened: Opened }[]> {
    const before = this.opened;
    const open = async (row: ListenerRow) => {
      const known = before.get(row.name);
      if (known?.sealed === row.sealed && known.opened.kind === 'opened')
        return { row, opened: known.opened };
      const opened = await this.box.open(row);
      if (opened.kind === 'locked' && known?.sealed !== row.sealed) this.tellLocked(row, opened.reason);
      return { row, opened };
    };
    const all = await Promise.all(rows.map(open));
    this.opened = new Map(all.map(({ row, opened }) => [row.name, { sealed: row.sealed, opened }]));
    return all;
  }

  private tellLocked({ name }: ListenerRow, reason: string): void {
    this.log.error(
      { event: 'listeners.locked', listener: name, reason },
      "a listener's secrets cannot be read: nothing is sent to it, what is owed waits",
    );
  }
}

function knownFrom(
  all: readonly { readonly row: ListenerRow; readonly opened: Opened }[],
  deleted: readonly number[],
  revision: number,
  now: Date,
): Known {
  const listeners = all.map(({ row, opened }) => listenerOf(row, opened, now));
  const expiries = all.flatMap(({ opened }) => (opened.kind === 'opened' ? expiriesOf(opened.content) : []));
  return {
    revision,
    listeners,
    byNumber: new Map(listeners.map((listener) => [listener.number, listener])),
    index: new TypeIndex(listeners),
    deleted: new Set(deleted),
    nextExpiryMs: Math.min(Number.POSITIVE_INFINITY, ...expiries.filter((ms) => ms > now.getTime())),
    locked: all.filter(({ opened }) => opened.kind === 'locked').length,
  };
}

/** One whose secrets cannot be read is as if disabled: unsigned deliveries would all be refused. */
export function listenerOf(row: ListenerRow, opened: Opened, now: Date): Listener {
  const { number, name, revision, lanes } = row;
  const terms = { number, name, revision, lanes, ...termsOf(row.definition) };
  if (opened.kind === 'locked') return { ...terms, state: 'disabled', url: '', headers: {}, secrets: [] };
  const { url, headers, secrets } = opened.content;
  return {
    ...terms,
    state: row.state,
    url,
    headers,
    secrets: signingNow(secrets, now).map(({ secret }) => secret),
  };
}

function expiriesOf({ secrets }: Confidential): number[] {
  return secrets.flatMap(({ until }) => (until === undefined ? [] : [Date.parse(until)]));
}
