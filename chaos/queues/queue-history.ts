import type { Queries } from '../queries.ts';
import { LEASE_CHANGES } from './lease-log.ts';

export type VerdictKind = 'acknowledge' | 'retry' | 'reject' | 'extend';

/** What a worker said about a lease. */
export interface SentVerdict {
  readonly lease: string;
  readonly kind: VerdictKind;
  /** Of a retry: how long to wait at least. */
  readonly afterMs?: number | undefined;
  /** Undefined: there was no response. */
  readonly outcome: 'done' | 'fenced' | 'unknown' | undefined;
}

export interface PulledMessage {
  readonly lease: string;
  readonly id: string;
  readonly type: string;
  readonly key: string;
  readonly sequence: number;
  readonly attempt: number;
  /** The text of the payload, as it came. */
  readonly payload: string;
}

/** A call of a worker, as it recorded it. */
export interface WorkerCall {
  readonly queue: string;
  readonly worker: string;
  readonly sentMs: number;
  readonly doneMs: number;
  /** Undefined: there was no response, or a temporary failure. */
  readonly status: number | undefined;
  /** Of a pull. */
  readonly messages: readonly PulledMessage[];
  /** Of an acknowledgement. */
  readonly verdicts: readonly SentVerdict[];
}

/** A change of a lease (INSERT, UPDATE, DELETE), or of its delivery (SETTLE, REOPEN). */
export interface LeaseChange {
  /** Grows with every change of a delivery and of a key, in the order in which they took effect. */
  readonly n: number;
  readonly op: 'INSERT' | 'UPDATE' | 'DELETE' | 'SETTLE' | 'REOPEN';
  /** Of the delivery. */
  readonly position: number;
  readonly attempt: number;
  readonly token: string;
  readonly atMs: number;
  /** Start of the transaction. */
  readonly beganMs: number;
  readonly handedMs: number;
  readonly expiresMs: number;
  /** Of the delivery, after the change. */
  readonly status: string;
  /** The attempt that the delivery is charged with, after the change. */
  readonly charged: number;
  /** The hand-out that settled the delivery last, after the change; null: none did, or it ran out. */
  readonly settledBy: string | null;
}

/** Everything about work queues: what workers recorded, and what the database recorded. */
export interface QueuesHistory {
  readonly calls: readonly WorkerCall[];
  readonly changes: readonly LeaseChange[];
}

export async function readQueues(database: Queries, calls: readonly WorkerCall[]): Promise<QueuesHistory> {
  return { calls, changes: await database.query<LeaseChange>(LEASE_CHANGES) };
}

/** A hand-out by the parts of its lease: opaque to consumers, but a checker has to find its delivery. */
export function leaseName({ position, attempt, token }: Pick<LeaseChange, 'position' | 'attempt' | 'token'>) {
  return `${position}.${attempt}.${token}`;
}

/** The same name from the text that a consumer gets. */
export function nameOfLease(lease: string): string {
  return lease.slice(lease.indexOf('.') + 1);
}
