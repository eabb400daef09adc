/** A delivery that is not settled, with all that it may wait for. */
export interface PendingRow {
  readonly id: string;
  readonly listener: string | null;
  readonly status: string;
  readonly state: string | null;
  readonly state_reason: string | null;
  readonly deleted: boolean;
  readonly closed_until: Date | null;
  readonly gate_reason: string | null;
  readonly hold_reason: string | null;
  readonly hold_until: string | null;
  readonly replica: string | null;
}

/** What a delivery waits for, and what can be done about it. */
export interface PendingDelivery {
  readonly id: string;
  readonly listener: string | null;
  readonly status: string;
  readonly waitsFor:
    | 'deleted-listener'
    | 'paused-listener'
    | 'disabled-listener'
    | 'listener'
    | 'hold'
    | 'turn';
  /** One sentence for a person, with the next step. */
  readonly explanation: string;
}

/** Pure: the first thing that stands in the way, in the order a delivery would meet them. */
export function explainPending(row: PendingRow): PendingDelivery {
  const { id, listener, status } = row;
  return { id, listener, status, ...reasonOf(row) };
}

function reasonOf(row: PendingRow): Pick<PendingDelivery, 'waitsFor' | 'explanation'> {
  const { listener } = row;
  if (row.deleted || listener === null) {
    const explanation = `The listener ${listener} was deleted; it is sent when a listener of that name is put again.`;
    return { waitsFor: 'deleted-listener', explanation };
  }
  if (row.state === 'paused' || row.state === 'disabled') {
    const because = row.state_reason ? ` (${row.state_reason})` : '';
    return {
      waitsFor: `${row.state}-listener`,
      explanation: `The listener ${listener} is ${row.state}${because}; POST /v1/listeners/${listener}/resume.`,
    };
  }
  if (row.closed_until) {
    const until = row.closed_until.toISOString();
    return {
      waitsFor: 'listener',
      explanation: `Nothing is sent to ${listener} until ${until} (${row.gate_reason}); it goes on by itself.`,
    };
  }
  if (row.hold_reason && row.status !== 'processing') {
    const until = row.hold_until === 'infinity' ? 'without end' : `until ${row.hold_until}`;
    return { waitsFor: 'hold', explanation: `Its key waits ${until} (${row.hold_reason}).` };
  }
  const explanation = row.replica
    ? `Replica ${row.replica} sends what stands in its lane.`
    : 'It is its turn after others of its lane; if that does not change, no replica with the role outbox runs.';
  return { waitsFor: 'turn', explanation };
}
