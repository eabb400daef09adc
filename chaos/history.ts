import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Behaviour } from './chain.ts';
import type { GroupsHistory } from './groups/group-history.ts';
import type { GroupTerms } from './groups/group-terms.ts';
import type { InjectedFault, Logged } from './logged.ts';
import type { OperatorHistory } from './operator/operator-history.ts';
import type { Queries } from './queries.ts';
import type { QueuesHistory } from './queues/queue-history.ts';
import type { QueueTerms } from './queues/queue-terms.ts';
import type { RebuildHistory } from './rebuilds/rebuild-history.ts';

/** What a producer knows about a message that it posted. */
export interface Posted {
  readonly id: string;
  readonly type: string;
  readonly key: string;
  /** The text of the payload. */
  readonly payload: string;
  /** By the response; unknown: it gave up before it got one. */
  readonly outcome: 'accepted' | 'refused' | 'unknown';
  /** It has a due time, and gets its position in the inbox then. */
  readonly scheduled: boolean;
  /** When it was first posted. */
  readonly postedMs: number;
}

/** One request, as recorded by a receiver. */
export interface Arrival {
  readonly listener: string;
  /** Its number among all requests. */
  readonly at: number;
  readonly atMs: number;
  /** The `webhook-id`. */
  readonly delivery: string;
  /** `yes`, or the error of the official library. */
  readonly signed: string;
  readonly body: string;
  /** Of a listener whose secret was rotated: for how long its receiver has known the new one, and whether that signed, too. */
  readonly rotated?: { readonly forMs: number; readonly signed: string };
  /** The attributes of a CloudEvent. */
  readonly ce:
    | { readonly id: string; readonly type: string; readonly key: string; readonly sequence: number }
    | undefined;
  readonly reply: string;
}

export interface MessageRow {
  readonly position: number;
  readonly id: string;
  readonly type: string;
  readonly key: string;
  readonly lane: number;
  readonly payload: (Behaviour & { readonly parent?: string }) | null;
  readonly text: string;
  readonly status: string;
  readonly attempt: number;
  readonly error: string | null;
  readonly superseded_by: number | null;
  /** It is in history. */
  readonly archived: boolean;
}

export interface DeliveryRow {
  readonly position: number;
  readonly id: string;
  readonly listener: string;
  /** Position in the inbox. */
  readonly message: number;
  readonly key: string;
  readonly lane: number;
  readonly sequence: number;
  readonly status: string;
  readonly attempt: number;
  readonly error: string | null;
  /** A replay or a revive made it pending again. */
  readonly reopened: boolean;
  /** As returned by `GET /v1/messages/{id}`. */
  readonly attemptsTotal: number;
}

/** Everything that was recorded, read when the run is idle. */
export interface History {
  readonly posted: readonly Posted[];
  readonly arrivals: readonly Arrival[];
  readonly messages: readonly MessageRow[];
  readonly deliveries: readonly DeliveryRow[];
  readonly chains: readonly { readonly key: string; readonly n: number; readonly hash: string }[];
  readonly effects: readonly { readonly id: string; readonly times: number }[];
  /** Attempts and failures of messages that fail, by the database's clock. */
  readonly attemptLog: readonly {
    readonly id: string;
    readonly what: string;
    readonly attempt: number;
    readonly atMs: number;
  }[];
  /** Lanes that are still leased, also by a worker that has a message of them. */
  readonly leased: readonly { readonly queue: string; readonly lane: number }[];
  readonly holds: readonly {
    readonly queue: string;
    readonly key: string;
    readonly lane: number;
    readonly reason: string;
    readonly indefinite: boolean;
  }[];
  readonly operations: OperatorHistory;
  readonly rebuilds: RebuildHistory;
  /** Undefined: a run without topics and groups. */
  readonly groups: GroupsHistory | undefined;
  /** Undefined: a run without work queues. */
  readonly queues: QueuesHistory | undefined;
  /** Errors in the output of the replicas. */
  readonly logged: readonly Logged[];
  /** The faults of the run. */
  readonly injected: readonly InjectedFault[];
  readonly terms: RunTerms;
}

/** The configuration that the checks rely on. */
export interface RunTerms {
  readonly retriesMs: readonly number[];
  readonly listeners: readonly {
    readonly name: string;
    readonly types: readonly string[];
    readonly ordered: boolean;
    readonly format: 'standard' | 'cloudevents';
    readonly maxAttempts: number;
    readonly onDead: 'skip' | 'hold';
  }[];
  readonly groups?: GroupTerms;
  readonly queues?: readonly QueueTerms[];
}

export async function readArrivals(file: string): Promise<Arrival[]> {
  const arrivals: Arrival[] = [];
  for await (const line of createInterface({ input: createReadStream(file) }))
    arrivals.push(JSON.parse(line));
  return arrivals;
}

/** The tables besides that of messages; the attempts of the deliveries are read over the API. */
export async function readTables(database: Queries) {
  return {
    deliveries: await database.query<Omit<DeliveryRow, 'attemptsTotal'>>(
      `SELECT outbox.position::int, outbox.id, listener.name AS listener, message::int, key, lane, sequence::int, outbox.status, attempt, error,
              replay IS NOT NULL OR ruling IS NOT NULL AS reopened
       FROM outbox JOIN listener ON listener.number = outbox.listener ORDER BY outbox.position`,
    ),
    chains: await database.query<History['chains'][number]>('SELECT * FROM chain'),
    effects: await database.query<History['effects'][number]>(
      'SELECT id, count(*)::int AS times FROM effect GROUP BY id',
    ),
    attemptLog: await database.query<History['attemptLog'][number]>(
      `SELECT id, what, attempt, extract(epoch FROM at)::float8 * 1000 AS "atMs" FROM chaos.attempt_log ORDER BY at`,
    ),
    leased: await database.query<History['leased'][number]>(
      `SELECT queue, lane FROM lane WHERE leased_until > '-infinity' AND leased_until < 'infinity' OR token IS NOT NULL
       UNION ALL SELECT 'outbox', lane FROM pull_lease`,
    ),
    holds: await database.query<History['holds'][number]>(
      `SELECT queue, key, lane, reason, until = 'infinity' AS indefinite FROM hold`,
    ),
  };
}
