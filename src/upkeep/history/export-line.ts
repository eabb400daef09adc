import type { HistoryMessage } from '../../history/history-message.ts';

/** A message as a line. The payload is the text that was posted; one with line breaks is a string, `payloadText`. */
export function lineOf(message: HistoryMessage): string {
  const { id, source, type, key, headers, occurredAt, receivedMs, lane, position, applied, payload } =
    message;
  const rest = JSON.stringify({
    ...{ id, source, type, key },
    ...(headers ? { headers } : {}),
    ...(occurredAt === null ? {} : { occurredAt }),
    receivedAt: new Date(receivedMs).toISOString(),
    ...{ lane, position, applied },
  });
  const text = /[\n\r]/.test(payload) ? `"payloadText":${JSON.stringify(payload)}` : `"payload":${payload}`;
  return `${rest.slice(0, -1)},${text}}\n`;
}
