import { formatDuration, parseDuration } from '../config/duration.ts';
import { maxCallMs } from '../config/max-call.ts';
import { nearest } from '../config/nearest.ts';
import { pointerTo } from '../http/pointer.ts';
import { type FieldError, Problem } from '../http/problems.ts';
import { validated } from '../http/valid-body.ts';
import { headerRefusal } from '../webhooks/listener-headers.ts';
import { durationFrom, wholeFrom } from './definition-rules.ts';
import { DEFAULT_TIMEOUT } from './effective-definition.ts';
import { ListenerDefinition, MAX_HEADERS, MAX_TIMEOUT_MS } from './listener-definition.ts';

export type Checked =
  | { readonly kind: 'valid'; readonly definition: ListenerDefinition }
  | { readonly kind: 'faulty'; readonly faults: readonly FieldError[] };

/** Says why a URL must not be sent to; undefined: it may. */
export type UrlRefusal = (url: string) => Promise<string | undefined>;

/** What a definition has to fit. */
export interface Bounds {
  readonly urlRefusal: UrlRefusal;
  /** OUTBOX_LEASE. */
  readonly leaseMs: number;
}

const MAX_TYPE = 200;
const MAX_URL = 2_048;
const MIN_RETRY_MS = 1;
const MAX_RETRY_MS = 30 * 86_400_000;
/** A body of 100,000 unknown fields is not answered with as many faults. */
const MAX_FAULTS = 50;
/** More than any list or object may have. */
const MAX_LOOKED_AT = 100;
const CONTROL = /[\u0000-\u001f\u007f]/;

const FIELDS = (
  'mode types url ordered lanes timeout retrySchedule terminalStatuses rateLimit ' +
  'headers format onDead disableAfter'
).split(' ');

/** Everything that is wrong with a definition, found at once: its shape, its elements, where it would send to. */
export async function checkDefinition(value: unknown, { urlRefusal, leaseMs }: Bounds): Promise<Checked> {
  const faults = await shapeFaults(value);
  if (isObject(value)) {
    faults.push(...elementFaults(value as Partial<ListenerDefinition>), ...timeoutFaults(value, leaseMs));
    const refused =
      typeof value.url === 'string' && value.url !== '' ? await urlFault(value.url, urlRefusal) : undefined;
    if (refused) faults.push({ pointer: '/url', detail: refused });
  }
  return faults.length
    ? { kind: 'faulty', faults: faults.slice(0, MAX_FAULTS) }
    : { kind: 'valid', definition: value as ListenerDefinition };
}

async function shapeFaults(value: unknown): Promise<FieldError[]> {
  const faults: FieldError[] = [];
  try {
    // Names of headers are no fields: they are looked at one by one, below.
    const fields = isObject(value) && isObject(value.headers) ? { ...value, headers: {} } : value;
    await validated(ListenerDefinition, fields);
  } catch (error) {
    if (!(error instanceof Problem) || error.problem !== 'invalid') throw error;
    const seen = new Set<string>();
    // One word about each place: of a nested object that is none, the library has two.
    const first = (error.more.errors ?? []).filter(({ pointer }) => !seen.has(pointer) && seen.add(pointer));
    faults.push(...first.map(withTheFieldMeant));
  }
  return faults;
}

function withTheFieldMeant(fault: FieldError): FieldError {
  if (fault.detail !== 'is not a known field') return fault;
  const meant = nearest(fault.pointer.slice(1), FIELDS, 3);
  return meant ? { ...fault, detail: `${fault.detail}; did you mean "${meant}"?` } : fault;
}

/** Longer, and another replica could take the lane and send again while the first call is still under way. */
function timeoutFaults(
  { timeout = DEFAULT_TIMEOUT }: Record<string, unknown>,
  leaseMs: number,
): FieldError[] {
  const ms = typeof timeout === 'string' ? parseDuration(timeout) : undefined;
  const maxMs = maxCallMs(leaseMs);
  if (ms === undefined || ms > MAX_TIMEOUT_MS || ms <= maxMs) return [];
  const lease = `OUTBOX_LEASE (${formatDuration(leaseMs)})`;
  return [{ pointer: '/timeout', detail: `must be at most ${formatDuration(maxMs)} with this ${lease}` }];
}

function elementFaults(definition: Partial<ListenerDefinition>): FieldError[] {
  return [
    ...eachOf('types', definition.types, typeFault),
    ...eachOf('retrySchedule', definition.retrySchedule, durationFrom(MIN_RETRY_MS, MAX_RETRY_MS)),
    ...eachOf('terminalStatuses', definition.terminalStatuses, wholeFrom(300, 599)),
    ...repeated('types', definition.types),
    ...repeated('terminalStatuses', definition.terminalStatuses),
    ...headerFaults(definition.headers),
  ];
}

function eachOf(field: string, list: unknown, rule: (value: unknown) => string | undefined): FieldError[] {
  if (!Array.isArray(list)) return [];
  return list.slice(0, MAX_LOOKED_AT).flatMap((value, index) => {
    const detail = rule(value);
    return detail === undefined ? [] : [{ pointer: `/${field}/${index}`, detail }];
  });
}

function repeated(field: string, given: unknown): FieldError[] {
  if (!Array.isArray(given)) return [];
  const list = given.slice(0, MAX_LOOKED_AT);
  const first = new Map(list.map((value, index) => [value, index] as const).reverse());
  return list.flatMap((value, index) => {
    const before = first.get(value)!;
    return before === index
      ? []
      : [{ pointer: `/${field}/${index}`, detail: `is the same as number ${before}` }];
  });
}

function typeFault(value: unknown): string | undefined {
  if (typeof value !== 'string' || value === '') return 'must be a type, or a pattern with *';
  if (value.length > MAX_TYPE) return `must not be longer than ${MAX_TYPE} characters`;
  return CONTROL.test(value) ? 'must not hold control characters' : undefined;
}

function headerFaults(headers: unknown): FieldError[] {
  if (!isObject(headers)) return [];
  const names = Object.keys(headers);
  if (names.length > MAX_HEADERS)
    return [{ pointer: '/headers', detail: `must not have more than ${MAX_HEADERS} members` }];
  const seen = new Set<string>();
  return names.flatMap((name) => {
    const value = headers[name];
    const twice = seen.has(name.toLowerCase())
      ? 'is there twice: case makes no difference in a header'
      : undefined;
    seen.add(name.toLowerCase());
    const detail = typeof value === 'string' ? (headerRefusal(name, value) ?? twice) : 'must be a text';
    return detail === undefined ? [] : [{ pointer: pointerTo('/headers', name), detail }];
  });
}

async function urlFault(url: string, urlRefusal: UrlRefusal): Promise<string | undefined> {
  if (url.length > MAX_URL) return `must not be longer than ${MAX_URL} characters`;
  return urlRefusal(url);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
