import { createHmac, randomBytes } from 'node:crypto';
import { VERSION } from '../version.ts';
import { headerRefusal } from './listener-headers.ts';

const PREFIX = 'whsec_';
const SECRET_BYTES = 32;

/** One attempt at one delivery. */
export interface Delivery {
  /** The same at every attempt. */
  readonly deliveryId: string;
  readonly attempt: number;
  readonly messageId: string;
  readonly source: string;
  readonly type: string;
  readonly key: string;
  readonly sequence: number;
  readonly occurredAt: Date;
  /** JSON text, forwarded unchanged. */
  readonly payload: string;
  readonly traceparent?: string | undefined;
}

/** What the sender sends. */
export interface WebhookRequest {
  /** The listener whose connections are used: listeners share none, so that one that hangs does not block others. */
  readonly listener: number;
  /** Max connections; further requests wait for one. */
  readonly connections: number;
  readonly url: string;
  /** Name, value, name, value … */
  readonly headers: readonly string[];
  readonly body: string;
  /** Names the trace where the message has none. */
  readonly deliveryId: string;
  /** Of the message. Not in the headers: a tracer that instruments the sender writes its own. */
  readonly traceparent: string | undefined;
}

/** What a request needs from its listener. */
export interface Recipient {
  readonly number: number;
  readonly lanes: number;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly format: 'standard' | 'cloudevents';
  readonly secrets: readonly string[];
}

/** W3C trace context; version ff and ids of only zeros are invalid. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Builds and signs a delivery; `at` is the time of the attempt, which receivers compare with their clock. */
export function webhookRequest(
  delivery: Delivery,
  listener: Recipient,
  at: Date = new Date(),
): WebhookRequest {
  const { deliveryId, attempt, payload, traceparent } = delivery;
  const seconds = Math.floor(at.getTime() / 1000);
  const body = listener.format === 'cloudevents' ? payload : standardBody(delivery);
  const headers = [
    ...ownHeaders(listener.headers),
    'content-type',
    'application/json',
    'webhook-id',
    deliveryId,
    'webhook-timestamp',
    String(seconds),
    'webhook-signature',
    signatures(deliveryId, seconds, body, listener.secrets),
    'webhook-attempt',
    String(attempt),
  ];
  if (listener.format === 'cloudevents') headers.push(...cloudEventHeaders(delivery));
  return {
    listener: listener.number,
    connections: listener.lanes,
    url: listener.url,
    headers,
    body,
    deliveryId,
    traceparent: validTrace(traceparent),
  };
}

function validTrace(traceparent: string | undefined): string | undefined {
  return traceparent !== undefined && TRACEPARENT.test(traceparent) ? traceparent : undefined;
}

/** The trace of a delivery that carries none of its own span: its message's, or one made of its id. */
export function traceOf({ traceparent, deliveryId }: Delivery): string {
  return validTrace(traceparent) ?? traceparentOf(deliveryId);
}

/** Of a message that has no trace: the same at every attempt, not sampled. A UUID v4 is never all zeros, nor is its second half. */
export function traceparentOf(deliveryId: string): string {
  const hex = deliveryId.replaceAll('-', '');
  return `00-${hex}-${hex.slice(16)}-00`;
}

/** The payload goes in verbatim: parsed and written again, 1.0 would become 1. */
function standardBody({ messageId, type, occurredAt, key, sequence, payload }: Delivery): string {
  return `{"id":${JSON.stringify(messageId)},"type":${JSON.stringify(type)},"timestamp":"${occurredAt.toISOString()}","key":${JSON.stringify(key)},"sequence":${sequence},"data":${payload}}`;
}

/**
 * The attributes of CloudEvents 1.0. `id` and `source` name the event, so they are the message's: the same for every
 * listener and at every replay. `webhook-id` names the delivery.
 */
export function cloudEventAttributes(
  delivery: Delivery,
): readonly (readonly [name: string, value: string])[] {
  const { messageId, source, type, occurredAt, key, sequence } = delivery;
  return [
    ['specversion', '1.0'],
    ['id', messageId],
    ['source', source],
    ['type', type],
    ['time', occurredAt.toISOString()],
    ['subject', key],
    ['sequence', String(sequence)],
    // The sequence extension wants texts that sort, unless they are declared as numbers.
    ['sequencetype', 'Integer'],
  ];
}

/** Binary mode in headers, as of HTTP and NATS. */
export function cloudEventHeaders(delivery: Delivery): string[] {
  return cloudEventAttributes(delivery).flatMap(([name, value]) => [`ce-${name}`, ceValue(value)]);
}

/** The HTTP binding's percent-encoding: blank, quote, percent and everything that is not printable ASCII. */
function ceValue(text: string): string {
  return text.replace(/[^\x21\x23\x24\x26-\x7e]+/g, (run) =>
    Array.from(
      Buffer.from(run, 'utf8'),
      (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`,
    ).join(''),
  );
}

const checked = new WeakMap<Recipient['headers'], readonly string[]>();

/** Bad headers are already refused at PUT; checked again because a definition may be older than a rule. */
function ownHeaders(headers: Recipient['headers']): readonly string[] {
  let list = checked.get(headers);
  if (list === undefined) {
    const allowed = Object.entries(headers).filter(
      ([name, value]) => headerRefusal(name, value) === undefined,
    );
    const named = allowed.some(([name]) => name.toLowerCase() === 'user-agent');
    list = [...(named ? [] : ['user-agent', `Sluice/${VERSION}`]), ...allowed.flat()];
    checked.set(headers, list);
  }
  return list;
}

/** A new signing secret, in the format of Standard Webhooks. */
export function newSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString('base64');
}

/** `v1,…` for each secret: during a rotation a receiver may know either. */
export function signatures(id: string, seconds: number, body: string, secrets: readonly string[]): string {
  if (secrets.length === 0) throw new Error('a delivery cannot be signed without a secret');
  const signed = `${id}.${seconds}.${body}`;
  return secrets.map((secret) => `v1,${hmac(secret, signed)}`).join(' ');
}

function hmac(secret: string, text: string): string {
  const key = Buffer.from(secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret, 'base64');
  if (key.length === 0) throw new Error('the secret of a listener is empty');
  return createHmac('sha256', key).update(text, 'utf8').digest('base64');
}
