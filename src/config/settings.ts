import { formatDuration } from './duration.ts';
import { isSlipOf, nearest } from './nearest.ts';
import { Refused, type Setting } from './setting.ts';
import { SETTINGS } from './settings.schema.ts';

type CamelCase<S extends string> = S extends `${infer Head}_${infer Tail}`
  ? `${Lowercase<Head>}${Capitalize<CamelCase<Tail>>}`
  : Lowercase<S>;
type ValueOf<S> = S extends Setting<infer T> ? T : never;
type Names = keyof typeof SETTINGS;

/** The whole configuration: `DATABASE_POOL_SIZE` becomes `databasePoolSize`; times are in milliseconds, sizes in bytes. */
export type Settings = { readonly [K in Names as CamelCase<K>]: ValueOf<(typeof SETTINGS)[K]> };

export type Role = Settings['roles'][number];

/** Injection token of the Settings. */
export const SETTINGS_TOKEN = Symbol('Settings');

/** A configuration with which the service does not start; the message has one line per error. */
export class SettingsError extends Error {
  constructor(errors: readonly string[]) {
    super(errors.join('\n'));
    this.name = 'SettingsError';
  }
}

/** Under which the settings keep the texts that they were read from; not by name, so that nothing else uses them. */
const RAW_TEXTS = Symbol('given');

/** What the environment set, by the name of the variable. */
export function givenValues(settings: Settings): Readonly<Record<string, string>> {
  return (settings as { [RAW_TEXTS]?: Record<string, string> })[RAW_TEXTS] ?? {};
}

/** Reads the environment once, and reports all errors together. */
export function loadSettings(environment: Readonly<Record<string, string | undefined>>): Settings {
  const errors = misspelled(environment);
  const values: Record<string, unknown> = {};
  const given: Record<string, string> = {};
  for (const [name, setting] of Object.entries<Setting<unknown>>(SETTINGS)) {
    const raw = environment[name];
    if (raw === undefined || raw === '') {
      values[camelCase(name)] = setting.absent;
      continue;
    }
    const value = setting.parse(raw);
    if (value === undefined || value instanceof Refused) {
      const reason = value ? `: ${value.reason}` : '';
      const printed = setting.secret ? '(hidden)' : onOneLine(raw);
      errors.push(`${name}=${printed} is not allowed${reason}; allowed: ${setting.allowed}`);
    } else {
      values[camelCase(name)] = value;
      given[name] = raw;
    }
  }
  if (errors.length) throw new SettingsError(errors);
  const settings = {
    ...withHomeCell(withMetricsAccess(withHost(values as unknown as Settings))),
    [RAW_TEXTS]: Object.freeze(given),
  };
  refuseUnsafe(settings);
  return frozen(settings);
}

function withHost(settings: Settings): Settings {
  return { ...settings, host: settings.host ?? (settings.apiKeys.length ? '0.0.0.0' : '127.0.0.1') };
}

/** With CELLS, the database of this Sluice is that of the home cell. */
function withHomeCell(settings: Settings): Settings {
  return { ...settings, databaseUrl: settings.databaseUrl ?? settings.cells[0]?.url };
}

function withMetricsAccess(settings: Settings): Settings {
  const { metricsAccess = isLoopback(settings.host!) ? 'open' : 'keyed' } = settings;
  return { ...settings, metricsAccess };
}

/** Refuses values that are each valid alone and harmful together. */
function refuseUnsafe(settings: Settings): void {
  const errors: string[] = [];
  if (settings.apiKeys.length === 0 && !isLoopback(settings.host!)) {
    errors.push(
      `HOST=${settings.host} without API_KEYS would let anyone in; set API_KEYS, or leave HOST at 127.0.0.1`,
    );
  }
  errors.push(
    ...cellErrors(settings),
    ...standbyErrors(settings),
    ...retentionErrors(settings),
    ...historyErrors(settings),
  );
  if (errors.length) throw new SettingsError(errors);
}

function cellErrors({ cells, cellWorkers, databaseUrl, databasePooler }: Settings): string[] {
  const names = cells.map(({ name }) => name);
  const errors: string[] = [];
  if (cells.length > 0 && databaseUrl !== cells[0]!.url)
    errors.push(
      'DATABASE_URL and CELLS are both set; leave DATABASE_URL out, CELLS names its database first',
    );
  if (cells.length > 0 && databasePooler === 'transaction')
    errors.push('DATABASE_POOLER=transaction does not work with CELLS; connect to the databases directly');
  for (const name of cellWorkers)
    if (!names.includes(name)) errors.push(`CELL_WORKERS names ${name}, which is not in CELLS`);
  return errors;
}

function standbyErrors({ readDatabaseUrl, databaseUrl, cells }: Settings): string[] {
  if (readDatabaseUrl === undefined) return [];
  if (cells.length > 0)
    return [
      'READ_DATABASE_URL does not work with CELLS: each cell would need standbys of its own; leave it out',
    ];
  if (databaseUrl === undefined)
    return ['READ_DATABASE_URL needs DATABASE_URL: the embedded PostgreSQL has no standby'];
  return [];
}

/** Retentions that are shorter than others they must cover; each error names the longest of those and the min value. */
function retentionErrors(settings: Settings): string[] {
  const finished = [
    { setting: 'RETENTION_FINISHED', ms: settings.retentionFinished },
    ...settings.retentionTypes.map(({ name, ms }) => ({ setting: `RETENTION_TYPES ${name}`, ms })),
  ];
  const ended = [
    ...finished,
    { setting: 'RETENTION_DEAD', ms: settings.retentionDead },
    ...settings.retentionDeadQueues.map(({ name, ms }) => ({ setting: `RETENTION_DEAD_QUEUES ${name}`, ms })),
    { setting: 'RETENTION_EXPIRED', ms: settings.retentionExpired },
    { setting: 'RETENTION_SUPERSEDED', ms: settings.retentionSuperseded },
  ];
  const { retentionWaiting, retentionProducers } = settings;
  return [
    ...shorterThan(
      'RETENTION_WAITING',
      retentionWaiting,
      ended,
      'unprocessed messages would be given up before finished ones are removed',
    ),
    ...shorterThan(
      'RETENTION_PRODUCERS',
      retentionProducers,
      finished,
      'the sequence numbers of a producer would be removed before the ids of its messages',
    ),
  ];
}

/** A message must not be older than its time in history when it gets there. */
function historyErrors({ history, retentionFinished, retentionTypes }: Settings): string[] {
  return history.flatMap(({ pattern, ms }) => {
    const ofType = retentionTypes.find(({ name }) => name === pattern);
    const finishedMs = ofType?.ms ?? retentionFinished;
    if (ms === undefined || ms > finishedMs) return [];
    const finished = `${ofType ? `RETENTION_TYPES ${pattern}` : 'RETENTION_FINISHED'}=${formatDuration(finishedMs)}`;
    return [
      `HISTORY ${pattern}=${formatDuration(ms)} is not longer than ${finished}: messages would be removed from history as soon as they get there; make it longer, or remove the pattern`,
    ];
  });
}

function shorterThan(
  name: string,
  ms: number,
  others: readonly { readonly setting: string; readonly ms: number }[],
  why: string,
): string[] {
  const longest = others.reduce((a, b) => (b.ms > a.ms ? b : a));
  if (ms >= longest.ms) return [];
  const needed = formatDuration(longest.ms);
  return [
    `${name}=${formatDuration(ms)} is shorter than ${longest.setting}=${needed}: ${why}; set ${name} to ${needed} or more`,
  ];
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

/** Shorter names are too similar to variables of other programs: see isSlipOf. */
const SHORT_NAME = 6;
/** Similar to a setting, but set by other programs: Marathon (PORTS), bundlers (HOT). */
const FOREIGN_NAMES = ['PORTS', 'HOT'];

/** `DATABASE_URI` is an error, `PATH` is not: only names that are almost the name of a setting are reported. */
function misspelled(environment: Readonly<Record<string, string | undefined>>): string[] {
  return Object.keys(environment)
    .filter(
      (name) => !(name in SETTINGS) && !FOREIGN_NAMES.includes(name) && !isServiceLink(name, environment),
    )
    .flatMap((name) => {
      const meant = meantBy(name);
      return meant ? [`${name} is not a setting; did you mean ${meant}?`] : [];
    });
}

function meantBy(name: string): string | undefined {
  const known = Object.keys(SETTINGS);
  const long = known.filter(({ length }) => length >= SHORT_NAME);
  return (
    (name.length >= SHORT_NAME ? nearest(name, long, 2) : undefined) ??
    known.find((one) => one.length < SHORT_NAME && isSlipOf(name, one))
  );
}

/** Kubernetes sets variables for every service in a pod: one named `outbox` sets OUTBOX_PORT, similar to OUTBOX_POLL. */
function isServiceLink(name: string, environment: Readonly<Record<string, string | undefined>>): boolean {
  const [, service] = /^(.+?)_(?:SERVICE_HOST|SERVICE_PORT|PORT)(?:_\w+)?$/.exec(name) ?? [];
  return service !== undefined && environment[`${service}_SERVICE_HOST`] !== undefined;
}

function onOneLine(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(frozen);
  return value;
}

function camelCase(name: string): string {
  return name.toLowerCase().replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
