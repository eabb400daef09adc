/** What the HTTP API returns, as far as the console reads it. Times are RFC 3339 in UTC. */

export interface Page<T> {
  readonly items: readonly T[];
  readonly next: string | null;
}

export type Scope = 'produce' | 'consume' | 'read' | 'admin';

export interface Session {
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** The service runs without keys: everybody on its loopback may do everything. */
  readonly open: boolean;
  readonly environment: string | null;
  readonly version: string;
  readonly expiresAt: string | null;
}

export interface QueueBacklog {
  readonly ready: number;
  readonly held: number;
  readonly oldestSeconds: number;
  readonly deadLetters: number;
}

export interface ListenerBacklog extends QueueBacklog {
  readonly name: string;
  readonly inFlight?: number;
  readonly state: string;
  readonly circuitOpen: boolean;
}

export interface GroupBacklog {
  readonly name: string;
  readonly lag: number;
  readonly lagSeconds: number;
  readonly members: number;
  readonly unownedPartitions: number;
  readonly expired: number;
  readonly deadLetters: number;
}

export interface Backlog {
  readonly observedAt: string;
  readonly countedUpTo: number;
  readonly inbox: QueueBacklog & { readonly scheduled: number };
  readonly listeners: readonly ListenerBacklog[];
  readonly groups: readonly GroupBacklog[];
}

export interface AttentionSubject {
  readonly stage?: string;
  readonly listener?: string;
  readonly group?: string;
  readonly topic?: string;
  readonly key?: string;
  readonly schedule?: string;
  readonly producer?: string;
  readonly source?: string;
  readonly readModel?: string;
  readonly fingerprint?: string;
  readonly replay?: string;
  readonly action?: string;
}

export interface AttentionAction {
  readonly label: string;
  readonly method: string;
  readonly path: string;
  readonly body?: Record<string, unknown>;
}

export interface AttentionItem {
  readonly id: string;
  readonly kind: string;
  readonly severity: 'critical' | 'warning';
  readonly sentence: string;
  readonly since: string | null;
  readonly count: number | null;
  readonly nextStep: string;
  /** A chapter of the operating guide. */
  readonly guide: string;
  readonly subject: AttentionSubject;
  readonly action: AttentionAction | null;
}

export interface Attention {
  readonly observedAt: string;
  readonly items: readonly AttentionItem[];
}

export interface ListenerRates {
  readonly name: string;
  readonly deliveredPerSecond: number;
  readonly failedPerSecond: number;
  readonly successRatio: number | null;
  readonly p95Ms: number | null;
}

export interface Rates {
  readonly windowSeconds: number;
  readonly acceptedPerSecond: number;
  readonly appliedPerSecond: number;
  readonly listeners: readonly ListenerRates[];
  readonly groups: readonly { readonly name: string; readonly committedPerSecond: number }[];
}

export interface Snapshot {
  readonly at: string;
  readonly backlog: Backlog;
  readonly attention: Attention;
  readonly rates: Rates;
}

/** Counts per step; null where no replica reported. */
export type Series = readonly (number | null)[];

export interface Activity {
  readonly from: string;
  readonly to: string;
  readonly stepSeconds: number;
  readonly times: readonly string[];
  readonly inbox: {
    readonly accepted: Series;
    readonly applied: Series;
    readonly failed: Series;
    readonly dead: Series;
  };
  readonly listeners: readonly {
    readonly name: string;
    readonly delivered: Series;
    readonly failed: Series;
    readonly p95Ms: Series;
  }[];
  readonly groups: readonly { readonly name: string; readonly committed: Series }[];
}

export interface Ruling {
  readonly kind?: string;
  readonly by?: string;
  readonly at?: string;
  readonly reason?: string | null;
}

export interface MessageSummary {
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly key: string;
  readonly status: string;
  readonly attempt: number;
  readonly error: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly occurredAt: string | null;
  readonly receivedAt: string;
  readonly dueAt: string | null;
  readonly expiresAt: string | null;
  readonly settledAt: string | null;
  readonly supersededBy?: string;
  readonly ruling?: Ruling;
  readonly producer?: { readonly id: string; readonly sequence: number };
}

export interface Attempt {
  readonly at: string;
  readonly attempt: number;
  readonly status: number | null;
  readonly error: string | null;
  readonly durationMs: number | null;
  readonly excerpt: string | null;
}

export interface Delivery {
  readonly id: string;
  readonly listener: string | null;
  readonly status: string;
  readonly attempt: number;
  readonly sequence: number;
  readonly error: string | null;
  readonly createdAt: string;
  readonly settledAt: string | null;
  readonly attempts: readonly Attempt[];
  readonly attemptsTotal: number;
  readonly ruling?: Ruling;
}

export interface MessageGroup {
  readonly group: string;
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly status: string;
  readonly explanation: string;
}

export interface Message extends MessageSummary {
  readonly payloadBytes?: number;
  readonly deliveries: readonly Delivery[];
  readonly deliveriesTotal: number;
  readonly groups: readonly MessageGroup[];
}

export interface Why {
  readonly id: string;
  readonly status: string;
  readonly waitsFor: {
    readonly kind: 'nothing' | 'time' | 'hold' | 'lease' | 'turn';
    readonly hold?: string;
    readonly deadLetter?: string | null;
  };
  readonly explanation: string;
  readonly deliveries: readonly {
    readonly id?: string;
    readonly listener?: string | null;
    readonly waitsFor?: string;
    readonly explanation?: string;
  }[];
}

/** A delivery in the list of a listener. */
export interface ListedDelivery {
  readonly id: string;
  readonly listener: string | null;
  readonly status: string;
  readonly attempt: number;
  readonly sequence: number;
  readonly error: string | null;
  readonly createdAt: string;
  readonly settledAt: string | null;
  readonly message: string;
  readonly type: string;
  readonly key: string;
  readonly responseStatus: number | null;
}

/** One delivery by its id. */
export interface DeliveryDetail extends Delivery {
  /** Null after the retention of the message, as its other members are. */
  readonly messageId: string | null;
  readonly source: string | null;
  readonly type: string | null;
  readonly key: string | null;
}

export interface ListenerHealth {
  readonly circuit: 'closed' | 'open';
  readonly closedUntil: string | null;
  readonly reason: string | null;
  readonly rate: { readonly perSecond: number | null; readonly limitedUntil: string | null };
}

export type ListenerMode = 'webhook' | 'pull' | 'nats' | 'rabbitmq' | 'kafka';

export interface NatsTarget {
  readonly servers: readonly string[];
  readonly subject: string;
  readonly stream?: string;
}

export interface RabbitTarget {
  readonly servers: readonly string[];
  readonly exchange?: string;
  readonly routingKey?: string;
}

export interface KafkaTarget {
  readonly servers: readonly string[];
  readonly topic: string;
  readonly mechanism?: string;
}

export interface Listener {
  readonly name: string;
  readonly mode: ListenerMode;
  readonly nats?: NatsTarget;
  readonly rabbitmq?: RabbitTarget;
  readonly kafka?: KafkaTarget;
  /** Which there are; their values are never shown. */
  readonly credentials?: Readonly<Record<string, string>>;
  readonly types: readonly string[];
  readonly url?: string;
  readonly ordered: boolean;
  readonly retrySchedule: readonly string[];
  readonly onDead: 'skip' | 'hold';
  readonly timeout?: string;
  readonly terminalStatuses?: readonly number[];
  readonly format?: string;
  readonly disableAfter?: { readonly status: number; readonly times: number } | null;
  readonly headers?: Readonly<Record<string, string>>;
  readonly lease?: string;
  readonly attempts?: number;
  readonly maxInFlight?: number;
  readonly lanes: number;
  readonly rateLimit: { readonly perSecond?: number; readonly burst?: number } | null;
  readonly state: 'active' | 'paused' | 'disabled';
  readonly stateReason: string | null;
  readonly stateSince: string | null;
  readonly stateBy: string | null;
  readonly origin: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly health?: ListenerHealth;
}

export interface PingOutcome {
  readonly delivered: boolean;
  readonly status: number | null;
  readonly error: string | null;
  readonly durationMs: number;
}

export interface Topic {
  readonly name: string;
  readonly types: readonly string[];
  readonly retention: string;
  readonly kind: string;
  readonly origin: string;
  readonly createdAt: string;
  readonly partitions: readonly {
    readonly partition: number;
    readonly earliest: number;
    readonly next: number;
  }[];
}

export interface TopicEntry {
  readonly offset: number;
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly key: string;
  readonly timestamp: string;
}

export interface GroupSummary {
  readonly name: string;
  readonly topics: readonly string[];
  readonly session: string;
  readonly maxInFlight: number;
  readonly attempts: number;
  readonly takeover: string;
  readonly onExpired: string;
  readonly origin: string;
  readonly lag: number;
  readonly lagSeconds: number;
  /** Live ones. */
  readonly members: number;
}

export interface GroupPartition {
  readonly topic: string;
  readonly partition: number;
  readonly committed: number;
  readonly handed: number;
  readonly earliest: number;
  readonly next: number;
  readonly lag: number;
  readonly lagSeconds: number;
  readonly expired: number;
  readonly member: string | null;
  readonly state: 'free' | 'owned' | 'draining' | 'suspect';
  readonly why: string;
}

export interface Group extends Omit<GroupSummary, 'members'> {
  readonly members: readonly {
    readonly member: string;
    readonly name: string | null;
    readonly joinedAt: string;
    readonly seenAt: string;
    readonly alive: boolean;
    readonly inFlight: number;
    readonly partitions: number;
  }[];
  readonly partitions: readonly GroupPartition[];
}

export interface SeekResult {
  readonly dryRun: boolean;
  readonly again: number;
  readonly skipped: number;
  readonly partitions: readonly {
    readonly topic: string;
    readonly partition: number;
    readonly from: number;
    readonly to: number;
  }[];
}

export interface DeadLetterGroup {
  readonly stage: string;
  readonly listener?: string;
  readonly group?: string;
  readonly fingerprint: string;
  readonly count: number;
  readonly first: string;
  readonly last: string;
  readonly example: {
    readonly id: string;
    readonly type: string;
    readonly key: string;
    readonly error: string | null;
  };
}

export interface DeadLetter {
  readonly id: string;
  readonly stage: string;
  readonly listener?: string;
  readonly group?: string;
  readonly message: string;
  readonly source: string;
  readonly type: string;
  readonly key: string;
  readonly attempt: number;
  readonly error: string | null;
  readonly fingerprint: string | null;
  readonly receivedAt: string;
  readonly diedAt: string | null;
  /** Messages of its key behind it, counted up to 100. */
  readonly waiting: number;
}

/** Selects dead letters, in a query and in a body alike. */
export interface DeadLetterFilter {
  readonly stage?: string;
  readonly listener?: string;
  readonly group?: string;
  readonly type?: string;
  readonly key?: string;
  readonly error?: string;
  readonly since?: string;
}

/** A revive or discard by filter. */
export interface RulingJob {
  readonly id: string;
  readonly kind: 'revive' | 'discard';
  readonly status: string;
  readonly matched: number;
  readonly done: number;
  readonly skipped: number;
  readonly remaining: number;
  readonly waiting?: number;
  readonly ended?: number;
  readonly dead?: number;
  readonly filter: DeadLetterFilter;
  readonly reason: string | null;
  readonly createdAt: string;
  readonly createdBy: string;
}

export interface ReplayJob {
  readonly id: string;
  readonly listener: string | null;
  readonly status: string;
  readonly selecting: boolean;
  readonly matched: number;
  readonly sent: number;
  readonly dead: number;
  readonly waiting: number;
  readonly filter: {
    readonly since: string;
    readonly onlyFailed: boolean;
    readonly until?: string;
    readonly types?: readonly string[];
    readonly keys?: readonly string[];
  };
  readonly createdAt: string;
  readonly createdBy: string;
}

export interface Hold {
  readonly key: string;
  readonly kind: string;
  readonly reason: string;
  readonly until: string | null;
  readonly since: string;
}

export interface KeyView {
  readonly key: string;
  readonly hold: Hold | null;
  readonly deadLetters: { readonly count: number; readonly items: readonly DeadLetter[] };
  readonly waiting: { readonly count: number; readonly oldestSeconds: number | null };
  readonly recent: readonly MessageSummary[];
}

export interface Schedule {
  readonly name: string;
  readonly cron: string;
  readonly timezone: string;
  readonly type: string;
  readonly key: string | null;
  readonly onMissed: string;
  readonly paused: boolean;
  readonly nextAt: string | null;
  readonly lastAt: string | null;
  readonly nextTicks?: readonly string[];
  readonly updatedAt: string;
  readonly updatedBy: string;
}

export interface AuditEntry {
  readonly id: string;
  readonly at: string;
  readonly by: string;
  readonly action: string;
  readonly target: string | null;
  readonly filter: unknown;
  readonly count: number | null;
  readonly reason: string | null;
}

export interface Replica {
  readonly id: string;
  readonly roles: readonly string[];
  readonly version: string;
  readonly host: string;
  readonly startedAt: string;
  readonly seenAt: string;
  readonly alive: boolean;
  readonly lanes: { readonly inbox: number; readonly outbox: number };
}

export interface ApiKey {
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly createdAt: string;
  readonly revokedAt: string | null;
}

export interface Setting {
  readonly name: string;
  readonly value: string | null;
  readonly default: string | null;
  readonly isSet: boolean;
  readonly isSecret: boolean;
  readonly description: string;
}

export interface Found {
  readonly kind: 'message' | 'delivery' | 'key' | 'listener' | 'topic' | 'group' | 'schedule';
  readonly id: string;
  readonly source?: string;
  readonly status?: string;
  readonly type?: string;
  readonly at?: string;
}
