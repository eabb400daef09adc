import { parseDuration } from '../config/duration.ts';
import type { Listener } from './listener.ts';
import { type ListenerDefinition, RETRY_SCHEDULE } from './listener-definition.ts';

/** Given fields without those that are kept apart, encrypted: headers and URL. */
export interface StoredDefinition extends Omit<ListenerDefinition, 'headers' | 'url'> {
  /** Scheme, host and port: what everybody who may see the listener sees of its URL. */
  readonly urlOrigin?: string;
  /** As the version before wrote it; nothing writes it any more. */
  readonly url?: string;
}

export const DEFAULT_LANES = 16;
export const DEFAULT_TIMEOUT = '15s';
/** The largest rate: what counts then is the limit per key alone. */
const NO_RATE = 10_000;

/** What is stored in the open of a definition. */
export function storedDefinition({
  headers: _,
  url,
  ...definition
}: ListenerDefinition & StoredDefinition): StoredDefinition {
  return { ...definition, urlOrigin: new URL(url).origin };
}

/** A URL for those who must not see its path and query. */
export function shownOrigin({ urlOrigin, url }: StoredDefinition): string {
  return `${urlOrigin ?? new URL(url!).origin}/…`;
}

/** What a definition comes to, in the words of the API. */
export function effectiveDefinition(definition: StoredDefinition) {
  return {
    mode: definition.mode ?? ('webhook' as const),
    types: definition.types,
    ordered: definition.ordered ?? true,
    timeout: definition.timeout ?? DEFAULT_TIMEOUT,
    retrySchedule: definition.retrySchedule ?? RETRY_SCHEDULE,
    // None: a receiver that answers 403 for an hour, because its certificate or its proxy is broken, loses nothing.
    // Whoever knows that an answer of theirs is final says so.
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
  const { timeout, retrySchedule, ...same } = effectiveDefinition(definition);
  return {
    ...same,
    timeoutMs: parseDuration(timeout)!,
    retryScheduleMs: retrySchedule.map((wait) => parseDuration(wait)!),
  };
}

function rateLimitOf({ rateLimit }: StoredDefinition): Listener['rateLimit'] {
  if (!rateLimit) return undefined;
  const perSecond = rateLimit.perSecond ?? NO_RATE;
  return { perSecond, burst: rateLimit.burst ?? Math.max(1, Math.ceil(perSecond)), perKey: rateLimit.perKey };
}
