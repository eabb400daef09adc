import type { DeliveryStatus, PendingDelivery } from './deliveries.openapi.ts';

/** A delivery that is not settled, with everything that it may wait for. */
export interface PendingRow {
  readonly id: string;
  readonly listener: string | null;
  readonly status: DeliveryStatus;
  readonly state: string | null;
  readonly state_reason: string | null;
  readonly deleted: boolean;
  readonly closed_until: Date | null;
  readonly gate_reason: string | null;
  readonly hold_reason: string | null;
  readonly hold_until: string | null;
  readonly replica: string | null;
  /** It waits for a consumer that pulls it. */
  readonly pulled: boolean;
  /** A consumer has it. */
  readonly leased_until: Date | null;
  /** A consumer has this or another delivery of its key. */
  readonly key_leased_until: Date | null;
}

/** Pure: the first thing that the delivery waits for, in the order in which it is checked. */
export function explainPending(row: PendingRow): PendingDelivery {
  const { id, listener, status } = row;
  return { id, listener, status, ...reasonOf(row) };
}

type Reason = Pick<PendingDelivery, 'waitsFor' | 'explanation'>;

function reasonOf(row: PendingRow): Reason {
  return leaseOf(row) ?? listenerStateOf(row) ?? keyStateOf(row) ?? turnOf(row);
}

function leaseOf({ leased_until }: PendingRow): Reason | undefined {
  if (!leased_until) return undefined;
  const explanation = `A consumer has it until ${leased_until.toISOString()}; then it is handed out again.`;
  return { waitsFor: 'consumer', explanation };
}

function listenerStateOf(row: PendingRow): Reason | undefined {
  const { listener, state } = row;
  if (row.deleted || listener === null) {
    const explanation = `The listener ${listener} was deleted; the delivery is sent when a listener of that name is created again.`;
    return { waitsFor: 'deleted-listener', explanation };
  }
  if (state === 'paused' || state === 'disabled') {
    const because = row.state_reason ? ` (${row.state_reason})` : '';
    const explanation = `The listener ${listener} is ${state}${because}; POST /v1/listeners/${listener}/resume.`;
    return { waitsFor: `${state}-listener`, explanation };
  }
  if (!row.closed_until) return undefined;
  const until = row.closed_until.toISOString();
  const explanation = `Nothing is sent to ${listener} until ${until} (${row.gate_reason}); sending then continues by itself.`;
  return { waitsFor: 'listener', explanation };
}

function keyStateOf(row: PendingRow): Reason | undefined {
  if (row.key_leased_until) {
    const explanation = `A consumer has an earlier message of its key, until ${row.key_leased_until.toISOString()}.`;
    return { waitsFor: 'key', explanation };
  }
  if (!row.hold_reason || row.status === 'processing') return undefined;
  const until = row.hold_until === 'infinity' ? 'indefinitely' : `until ${row.hold_until}`;
  return { waitsFor: 'hold', explanation: `Its key is held ${until} (${row.hold_reason}).` };
}

function turnOf({ pulled, listener, replica }: PendingRow): Reason {
  if (pulled) {
    const explanation = `It is handed out to a consumer that pulls it: POST /v1/listeners/${listener}/pull.`;
    return { waitsFor: 'consumer', explanation };
  }
  const explanation = replica
    ? `Replica ${replica} is sending the deliveries of its lane.`
    : 'It is sent after earlier deliveries of its lane; if that does not happen, no replica with the role outbox is running.';
  return { waitsFor: 'turn', explanation };
}
