import { Injectable } from '@nestjs/common';
import { Listeners } from '../../listeners/listeners.ts';
import { type Snapshot, Snapshots } from '../observation/snapshots.ts';
import { type Item, itemOf, ranked } from './attention-item.ts';
import { AttentionStore, type Findings } from './attention-store.ts';
import { findingsInBacklog } from './findings-in-backlog.ts';
import { findingsInTables } from './findings-in-tables.ts';

export interface Seen {
  readonly observedAt: Date;
  readonly items: readonly Item[];
}

/** What needs an operator now. Read together with the backlog, so at most once a second on this replica. */
@Injectable()
export class Attention {
  private last: { readonly snapshot: Snapshot; readonly seen: Promise<Seen> } | undefined;

  constructor(
    private readonly snapshots: Snapshots,
    private readonly store: AttentionStore,
    private readonly listeners: Listeners,
  ) {}

  now(): Promise<Seen> {
    const snapshot = this.snapshots.recent();
    if (this.last?.snapshot === snapshot) return this.last.seen;
    return this.keep(snapshot, this.store.find());
  }

  /** The same, of findings that were read together with the snapshot. */
  keep(snapshot: Snapshot, findings: Promise<Findings>): Promise<Seen> {
    const seen = this.see(snapshot, findings);
    this.last = { snapshot, seen };
    return seen;
  }

  private async see({ at, observed }: Snapshot, found: Promise<Findings>): Promise<Seen> {
    const [inBacklog, inTables] = await Promise.all([observed, found]);
    const isPulled = (name: string) => this.listeners.byName(name)?.mode === 'pull';
    const findings = [...findingsInBacklog(inBacklog, at, isPulled), ...findingsInTables(inTables)];
    return { observedAt: at, items: ranked(findings.map(itemOf)) };
  }
}
