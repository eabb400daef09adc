import type { DeadLetterDetails, DeadLetterView } from './dead-letters.openapi.ts';
import type { DeadLetterRow, FoundRow } from './dead-letters-store.ts';

/** A dead letter as the API shows it. */
export function deadLetterView(row: DeadLetterRow): DeadLetterView {
  return {
    id: row.id,
    stage: row.stage,
    ...(row.listener === null ? {} : { listener: row.listener }),
    ...(row.group === null ? {} : { group: row.group, origin: row.origin }),
    message: row.message,
    source: row.source,
    type: row.type,
    key: row.key,
    attempt: row.attempt,
    error: row.error,
    fingerprint: row.fingerprint,
    occurredAt: row.occurred_at,
    receivedAt: row.received_at,
    diedAt: row.lapsed_at,
    waiting: row.waiting,
  };
}

/** The payload goes out as the text it came in as. */
export function deadLetterJson(row: FoundRow): string {
  const { headers, attempts, attempts_total: attemptsTotal } = row;
  const details: DeadLetterDetails = { headers: headers ?? {}, attempts, attemptsTotal };
  const rest = JSON.stringify({ ...deadLetterView(row), ...details });
  return `${rest.slice(0, -1)},"payload":${row.payload}}`;
}
