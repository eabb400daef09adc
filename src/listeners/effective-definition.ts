import { brokerOf, isBrokerMode } from '../brokers/broker.ts';
import { parseDuration } from '../config/duration.ts';
import type { Listener, ListenerMode } from './listener.ts';
import { BROKER_RETRY_SCHEDULE, type ListenerDefinition, RETRY_SCHEDULE } from './listener-definition.ts';

/** The given fields without headers, URL and credentials, which are stored encrypted. */
export interface StoredDefinition extends Omit<ListenerDefinition, 'headers' | 'url' | 'credentials'> {
  /** Scheme, host and port: the part of the URL that everyone with read access sees. */
  readonly urlOrigin?: string;
  /** As the previous version wrote it; no longer written. */
  readonly url?: string;
}

export const DEFAULT_LANES = 16;
export const DEFAULT_TIMEOUT = '15s';
const DEFAULT_LEASE = '30s';
const DEFAULT_MAX_IN_FLIGHT = 2_000;
/** The max rate: then only the limit per key counts. */
const NO_RATE = 10_000;

/** The part of a definition that is stored unencrypted. */
export function storedDefinition({
  headers: _,
  credentials: __,
  url,
  ...definition
}: ListenerDefinition & StoredDefinition): StoredDefinition {
  // Without a URL, the previous version shows this in its place during an upgrade.
  const urlOrigin = url === undefined ? `${modeOf(definition)}:` : new URL(url).origin;
  return { ...definition, urlOrigin };
}

export function modeOf({ mode = 'webhook' }: Pick<StoredDefinition, 'mode'>): ListenerMode {
  return mode;
}

/** The URL for readers who must not see its path and query. */
export function shownOrigin({ urlOrigin, url }: StoredDefinition): string {
  return `${urlOrigin ?? new URL(url!).origin}/…`;
}

/** A definition with all defaults, in the terms of the API. */
export function effectiveDefinition(definition: StoredDefinition) {
  const schedule = isBrokerMode(definition.mode) ? BROKER_RETRY_SCHEDULE : RETRY_SCHEDULE;
  const retrySchedule = definition.retrySchedule ?? schedule;
  return {
    mode: modeOf(definition),
    types: definition.types,
    ordered: definition.ordered ?? true,
    timeout: definition.timeout ?? DEFAULT_TIMEOUT,
    retrySchedule,
    lease: definition.lease ?? DEFAULT_LEASE,
    attempts: definition.attempts ?? retrySchedule.length + 1,
    maxInFlight: definition.maxInFlight ?? DEFAULT_MAX_IN_FLIGHT,
    // None by default: a receiver that returns 403 for an hour, because its certificate or its proxy is broken, loses
    // nothing. A listener whose responses are final lists them.
    terminalStatuses: definition.terminalStatuses ?? [],
    rateLimit: rateLimitOf(definition),
    format: definition.format ?? ('standard' as const),
    onDead: definition.onDead ?? ('skip' as const),
    disableAfter: definition.disableAfter,
  };
}

type Terms = Omit<
  Listener,
  'number' | 'name' | 'revision' | 'lanes' | 'url' | 'headers' | 'state' | 'secrets'
>;

/** The same for the engine: times in milliseconds. */
export function termsOf(definition: StoredDefinition): Terms {
  const { timeout, retrySchedule, lease, attempts, ...same } = effectiveDefinition(definition);
  const waits = retrySchedule.map((wait) => parseDuration(wait)!);
  return {
    ...same,
    broker: brokerOf(same.mode, definition),
    timeoutMs: parseDuration(timeout)!,
    leaseMs: parseDuration(lease)!,
    retryScheduleMs: Array.from({ length: attempts - 1 }, (_, n) => waits[Math.min(n, waits.length - 1)]!),
  };
}

function rateLimitOf({ rateLimit }: StoredDefinition): Listener['rateLimit'] {
  if (!rateLimit) return undefined;
  const perSecond = rateLimit.perSecond ?? NO_RATE;
  return { perSecond, burst: rateLimit.burst ?? Math.max(1, Math.ceil(perSecond)), perKey: rateLimit.perKey };
}
