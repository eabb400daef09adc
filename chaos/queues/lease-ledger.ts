import { type LeaseChange, leaseName } from './queue-history.ts';

/** finish: acknowledged. dead: a dead letter. expire: it ran out. return: it never reached a worker. */
export type EndKind = 'finish' | 'dead' | 'retry' | 'expire' | 'return';

export interface LeaseEnd extends LeaseChange {
  readonly kind: EndKind;
}

/** One hand-out of one message, as the database recorded it. */
export interface Lease extends LeaseChange {
  readonly name: string;
  extensions: number;
  /** As of the last extension. */
  expiresMs: number;
  end: LeaseEnd | undefined;
}

/** How a lease ended, by what became of its delivery. */
export function endOf(change: LeaseChange): LeaseEnd {
  const { status, settledBy, token, charged, attempt } = change;
  if (status === 'finished') return { ...change, kind: 'finish' };
  if (status === 'dead') return { ...change, kind: 'dead' };
  if (settledBy === token) return { ...change, kind: 'retry' };
  return { ...change, kind: charged === attempt ? 'expire' : 'return' };
}

/** All leases by their names. */
export function ledgerOf(changes: readonly LeaseChange[]): ReadonlyMap<string, Lease> {
  const ledger = new Map<string, Lease>();
  for (const change of changes) {
    const name = leaseName(change);
    const known = ledger.get(name);
    if (change.op === 'INSERT') ledger.set(name, { ...change, name, extensions: 0, end: undefined });
    else if (known && change.op === 'UPDATE') {
      known.extensions += 1;
      known.expiresMs = change.expiresMs;
    } else if (known && change.op === 'DELETE') known.end = endOf(change);
  }
  return ledger;
}
