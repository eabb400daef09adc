import { BROKER_MODES, isBrokerMode } from '../brokers/broker.ts';
import { brokerFaults, type ServerCheck } from '../brokers/check-broker.ts';
import { formatDuration, parseDuration } from '../config/duration.ts';
import { maxCallMs } from '../config/max-call.ts';
import { nearest } from '../config/nearest.ts';
import { durationFrom, wholeFrom } from '../http/definition-rules.ts';
import { pointerTo } from '../http/pointer.ts';
import { type FieldError, Problem } from '../http/problems.ts';
import { validated } from '../http/valid-body.ts';
import { headerRefusal } from '../webhooks/listener-headers.ts';
import { DEFAULT_TIMEOUT } from './effective-definition.ts';
import {
  LISTENER_MODES,
  ListenerDefinition,
  MAX_HEADERS,
  MAX_TIMEOUT_MS,
  quotedList,
} from './listener-definition.ts';

export type DefinitionCheck =
  | { readonly kind: 'valid'; readonly definition: ListenerDefinition }
  | { readonly kind: 'invalid'; readonly faults: readonly FieldError[] };

/** Returns why a URL must not be called; undefined: it may. */
export type UrlRefusal = (url: string) => Promise<string | undefined>;

/** The limits that a definition is checked against. */
export interface Bounds {
  readonly urlRefusal: UrlRefusal;
  /** Of the server of a broker. */
  readonly checkServer: ServerCheck;
  /** OUTBOX_LEASE. */
  readonly leaseMs: number;
}

const MAX_TYPE = 200;
const MAX_URL = 2_048;
const MIN_RETRY_MS = 1;
const MAX_RETRY_MS = 30 * 86_400_000;
/** A body with 100,000 unknown fields does not get as many errors back. */
const MAX_FAULTS = 50;
/** More elements than any list or object may have. */
const MAX_CHECKED = 100;
const CONTROL = /[\u0000-\u001f\u007f]/;

const FIELDS = (
  'mode types url ordered lanes timeout retrySchedule lease attempts maxInFlight terminalStatuses rateLimit ' +
  'headers format onDead disableAfter credentials ' +
  BROKER_MODES.join(' ')
).split(' ');
/** Fields that do not mean something in every mode. */
const ONLY_FOR: Readonly<Record<string, readonly string[]>> = {
  ...onlyFor(['webhook'], ['url', 'terminalStatuses', 'headers', 'format', 'disableAfter']),
  ...onlyFor(['webhook', ...BROKER_MODES], ['timeout']),
  ...onlyFor(BROKER_MODES, ['credentials']),
  ...onlyFor(['pull'], ['lease', 'attempts', 'maxInFlight']),
  ...Object.fromEntries(BROKER_MODES.map((mode) => [mode, [mode]])),
};

/** Finds everything that is wrong with a definition at once: its shape, its elements, its URL. */
export async function checkDefinition(
  value: unknown,
  { urlRefusal, checkServer, leaseMs }: Bounds,
): Promise<DefinitionCheck> {
  const faults = await shapeFaults(value);
  if (isObject(value)) {
    faults.push(...modeFaults(value), ...elementFaults(value as Partial<ListenerDefinition>));
    if (value.mode !== 'pull') faults.push(...timeoutFaults(value, leaseMs));
    if (isBrokerMode(value.mode)) faults.push(...(await brokerFaults(value.mode, value, checkServer)));
    const refused =
      typeof value.url === 'string' && value.url !== '' ? await urlFault(value.url, urlRefusal) : undefined;
    if (refused) faults.push({ pointer: '/url', detail: refused });
  }
  return faults.length
    ? { kind: 'invalid', faults: faults.slice(0, MAX_FAULTS) }
    : { kind: 'valid', definition: value as ListenerDefinition };
}

async function shapeFaults(value: unknown): Promise<FieldError[]> {
  const faults: FieldError[] = [];
  try {
    // Names of headers are not fields: they are checked one by one, below.
    const fields = isObject(value) && isObject(value.headers) ? { ...value, headers: {} } : value;
    await validated(ListenerDefinition, fields);
  } catch (error) {
    if (!(error instanceof Problem) || error.problem !== 'invalid') throw error;
    const seen = new Set<string>();
    // One error per pointer: for a nested object that is not an object, the library reports two.
    const first = (error.more.errors ?? []).filter(({ pointer }) => !seen.has(pointer) && seen.add(pointer));
    faults.push(...first.map((fault) => withSuggestion(fault, FIELDS)));
  }
  return faults;
}

/** Names the field that was probably meant. */
export function withSuggestion(fault: FieldError, fields: readonly string[]): FieldError {
  if (fault.detail !== 'is not a known field') return fault;
  const meant = nearest(fault.pointer.slice(1), fields, 3);
  return meant ? { ...fault, detail: `${fault.detail}; did you mean "${meant}"?` } : fault;
}

function modeFaults(value: Record<string, unknown>): FieldError[] {
  const mode = LISTENER_MODES.find((one) => one === value.mode) ?? 'webhook';
  const misplaced = Object.entries(ONLY_FOR).filter(
    ([field, modes]) => value[field] !== undefined && !modes.includes(mode),
  );
  const faults = misplaced.map(([field, modes]) => ({
    pointer: `/${field}`,
    detail: `is only for the mode ${quotedList(modes)}`,
  }));
  const required = isBrokerMode(mode) ? mode : mode === 'webhook' ? 'url' : undefined;
  if (required && value[required] === undefined)
    faults.push({ pointer: `/${required}`, detail: 'is required' });
  return faults;
}

function onlyFor(modes: readonly string[], fields: readonly string[]) {
  return Object.fromEntries(fields.map((field) => [field, modes]));
}

/** With a longer timeout another replica could take the lane over and send again while the first call is in flight. */
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
  return list.slice(0, MAX_CHECKED).flatMap((value, index) => {
    const detail = rule(value);
    return detail === undefined ? [] : [{ pointer: `/${field}/${index}`, detail }];
  });
}

function repeated(field: string, given: unknown): FieldError[] {
  if (!Array.isArray(given)) return [];
  const list = given.slice(0, MAX_CHECKED);
  const first = new Map(list.map((value, index) => [value, index] as const).reverse());
  return list.flatMap((value, index) => {
    const before = first.get(value)!;
    return before === index
      ? []
      : [{ pointer: `/${field}/${index}`, detail: `is the same as number ${before}` }];
  });
}

export function typeFault(value: unknown): string | undefined {
  if (typeof value !== 'string' || value === '') return 'must be a type, or a pattern with *';
  if (value.length > MAX_TYPE) return `must not be longer than ${MAX_TYPE} characters`;
  return CONTROL.test(value) ? 'must not contain control characters' : undefined;
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
    const detail = typeof value === 'string' ? (headerRefusal(name, value) ?? twice) : 'must be a string';
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
