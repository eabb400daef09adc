import { formatDuration } from '../../config/duration.ts';
import type { HandedOutDelivery } from './hand-out-store.ts';
import { leaseText } from './lease-token.ts';
import type { PullResult } from './pull-request.ts';

/** The response to a pull, as JSON text: payloads go in verbatim, because 1.0 that is parsed and written again is 1. */
export function pullJson({ token, rows, empty }: PullResult, leaseMs: number): string {
  const messages = rows.map((row) => messageJson(row, token)).join(',');
  const more = JSON.stringify({ leaseFor: formatDuration(leaseMs), ...empty }).slice(1);
  return `{"messages":[${messages}],${more}`;
}

function messageJson(row: HandedOutDelivery, token: string): string {
  const { id, type, key, sequence, attempt, headers, timestamp, payload } = row;
  const lease = leaseText({ ...row, token });
  return (
    `{"lease":"${lease}","id":${JSON.stringify(id)},"type":${JSON.stringify(type)},"key":${JSON.stringify(key)},` +
    `"sequence":${sequence},"attempt":${attempt},"headers":${headers ?? '{}'},"timestamp":"${timestamp}","payload":${payload}}`
  );
}
