/** What may need an operator, the most urgent first. */
export const KINDS = [
  'role-missing',
  'inconsistent-rows',
  'history-failed',
  'offsets-expired',
  'source-failing',
  'listener-disabled',
  'circuit-open',
  'expiring-soon',
  'backlog-old',
  'queue-not-consumed',
  'partition-unowned',
  'dead-letters',
  'consumer-lag',
  'rebuild-stopped',
  'schema-kept',
  'stalled-revive',
  'stalled-replay',
  'messages-refused',
  'producer-gap',
  'hold-without-end',
] as const;
export type Kind = (typeof KINDS)[number];

/** The chapter of docs/operating.md for each kind. */
export const GUIDES: Readonly<Record<Kind, string>> = {
  'role-missing': 'messages-are-not-processed',
  'inconsistent-rows': 'inconsistent-rows',
  'history-failed': 'history-cannot-be-written',
  'offsets-expired': 'offsets-have-expired',
  'source-failing': 'a-source-fails',
  'listener-disabled': 'one-listener-fails',
  'circuit-open': 'one-listener-fails',
  'expiring-soon': 'messages-expire',
  'backlog-old': 'the-backlog-grows',
  'queue-not-consumed': 'a-queue-is-not-consumed',
  'partition-unowned': 'an-unowned-partition',
  'dead-letters': 'dead-letters',
  'consumer-lag': 'a-group-falls-behind',
  'rebuild-stopped': 'a-rebuild-is-stalled',
  'schema-kept': 'a-rebuild-is-stalled',
  'stalled-revive': 'dead-letters',
  'stalled-replay': 'replay',
  'messages-refused': 'a-source-fails',
  'producer-gap': 'a-producer-has-a-gap',
  'hold-without-end': 'a-key-is-held',
};

const CRITICAL: readonly Kind[] = KINDS.slice(0, KINDS.indexOf('expiring-soon') + 1);

/** What an item is about; the fields that apply. */
export interface Subject {
  readonly stage?: string;
  readonly listener?: string;
  readonly group?: string;
  readonly topic?: string;
  readonly key?: string;
  readonly schedule?: string;
  readonly producer?: string;
  /** Of a producer; or a source that reads a broker. */
  readonly source?: string;
  /** The work on history that fails. */
  readonly history?: string;
  readonly fingerprint?: string;
  readonly replay?: string;
  readonly action?: string;
  readonly readModel?: string;
}

/** A request that would do the next step. */
export interface Remedy {
  readonly label: string;
  readonly method: 'POST' | 'DELETE';
  readonly path: string;
  readonly body?: object;
}

export interface Item {
  /** The same as long as it is about the same. */
  readonly id: string;
  readonly kind: Kind;
  readonly severity: 'critical' | 'warning';
  readonly sentence: string;
  readonly since: Date | null;
  readonly count: number | null;
  readonly nextStep: string;
  readonly guide: string;
  readonly subject: Subject;
  readonly action: Remedy | null;
}

export interface Finding {
  readonly kind: Kind;
  readonly sentence: string;
  readonly nextStep: string;
  readonly subject: Subject;
  readonly since?: Date | null;
  readonly count?: number;
  readonly action?: Remedy;
}

export function itemOf({ kind, subject, since, count, action, ...texts }: Finding): Item {
  return {
    id: [kind, ...Object.values(subject)].join(':'),
    kind,
    severity: CRITICAL.includes(kind) ? 'critical' : 'warning',
    ...texts,
    since: since ?? null,
    count: count ?? null,
    guide: GUIDES[kind],
    subject,
    action: action ?? null,
  };
}

/** The most urgent kind first, then the one that concerns most. */
export function ranked(items: readonly Item[]): Item[] {
  return items.toSorted(
    (a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || (b.count ?? 0) - (a.count ?? 0),
  );
}
