import type { Why } from './holds.openapi.ts';
import type { WhyRow } from './holds-store.ts';

/** Pure: the first reason to wait, in the order in which they apply to a message. */
export function explain(row: WhyRow): Why {
  const { id, status } = row;
  if (['finished', 'dead', 'expired', 'superseded', 'discarded'].includes(status)) return explainEnd(row);
  if (status === 'scheduled') {
    const explanation = `It is due at ${row.due_at!.toISOString()}.`;
    return { id, status, waitsFor: { kind: 'time', until: row.due_at! }, explanation };
  }
  if (row.hold_kind && status !== 'processing') return { id, status, ...heldBack(row) };
  const { ahead, replica } = row;
  if (row.leased) {
    const explanation = `Replica ${replica} holds its lane and has ${ahead} messages of it before this one.`;
    return { id, status, waitsFor: { kind: 'lease', replica, until: row.leased_until, ahead }, explanation };
  }
  const explanation = `It is processed after ${ahead} others of its lane; if that does not change, no replica with the role inbox runs.`;
  return { id, status, waitsFor: { kind: 'turn', ahead }, explanation };
}

/** The same for a message that waits for nothing any more. */
export function explainEnd({ id, status, error }: Pick<WhyRow, 'id' | 'status' | 'error'>): Why {
  const explanation =
    status === 'dead' ? `It is a dead letter (${error}); revive or discard it.` : `It ended as ${status}.`;
  return { id, status, waitsFor: { kind: 'nothing' }, explanation };
}

function heldBack(row: WhyRow): Pick<Why, 'waitsFor' | 'explanation'> {
  const { hold_kind, hold_reason, hold_until, hold_since, dead_ahead } = row;
  const deadLetter = hold_kind === 'dead-letter' ? dead_ahead : null;
  const until = hold_until ? `until ${hold_until.toISOString()}` : 'indefinitely';
  const why: Record<string, string> = {
    'dead-letter': `Its key waits behind the dead letter ${deadLetter}; revive or discard that, or end the hold.`,
    operator: `An operator holds its key ${until} (${hold_reason}); end the hold to release it.`,
    retry: `A message of its key failed and will be retried; its key waits ${until}.`,
    deferred: `A denormalizer deferred a message of its key; its key waits ${until}.`,
    rate: `Its key has reached its rate limit; it waits ${until}.`,
  };
  const waitsFor = {
    kind: 'hold',
    hold: hold_kind!,
    reason: hold_reason!,
    until: hold_until,
    since: hold_since,
    deadLetter,
  } as const;
  return { waitsFor, explanation: why[hold_kind!]! };
}
