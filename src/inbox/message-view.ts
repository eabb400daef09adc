import type { MessageDetails, MessageView } from './messages.openapi.ts';
import type { FoundMessage, MessageRow } from './messages-store.ts';

/** A message as the API shows it. */
export function messageView(row: MessageRow): MessageView {
  return {
    id: row.id,
    source: row.source,
    type: row.type,
    key: row.key,
    status: row.status,
    attempt: row.attempt,
    error: row.error,
    headers: row.headers ?? {},
    occurredAt: row.occurred_at,
    receivedAt: row.received_at,
    dueAt: row.due_at,
    expiresAt: row.expires_at,
    settledAt: row.settled_at,
    ...(row.archived ? { archived: row.archived } : {}),
    ...(row.superseded_by ? { supersededBy: row.superseded_by } : {}),
    ...(row.ruling ? { ruling: row.ruling } : {}),
    ...(row.producer ? { producer: { id: row.producer, sequence: row.sequence! } } : {}),
  };
}

/** The payload is returned as exactly the text that was posted, unless the row was read without it. */
export function messageJson(row: FoundMessage, more: Omit<MessageDetails, 'payloadBytes'>): string {
  const rest = JSON.stringify({ ...messageView(row), payloadBytes: row.payload_bytes, ...more });
  if (row.payload === null) return rest;
  return `${rest.slice(0, -1)},"payload":${row.payload}}`;
}
