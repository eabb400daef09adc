import { nearest } from './nearest.ts';
import type { Setting } from './setting.ts';
import { SETTINGS } from './settings.schema.ts';

type CamelCase<S extends string> = S extends `${infer Head}_${infer Tail}`
  ? `${Lowercase<Head>}${Capitalize<CamelCase<Tail>>}`
  : Lowercase<S>;
type ValueOf<S> = S extends Setting<infer T> ? T : never;
type Names = keyof typeof SETTINGS;

/** The whole configuration: `DATABASE_POOL_SIZE` is `databasePoolSize`; times are in milliseconds, sizes in bytes. */
export type Settings = { readonly [K in Names as CamelCase<K>]: ValueOf<(typeof SETTINGS)[K]> };

export type Role = Settings['roles'][number];

/** Injection token of the Settings. */
export const SETTINGS_TOKEN = Symbol('Settings');

/** A configuration the service will not start with: one line per fault. */
export class SettingsError extends Error {
  constructor(faults: readonly string[]) {
    super(faults.join('\n'));
    this.name = 'SettingsError';
  }
}

/** Reads the environment once; every fault is found before the first one is reported. */
export function loadSettings(environment: Readonly<Record<string, string | undefined>>): Settings {
  const faults = misspelled(environment);
  const values: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries<Setting<unknown>>(SETTINGS)) {
    const raw = environment[name];
    if (raw === undefined || raw === '') {
      values[camelCase(name)] = setting.absent;
      continue;
    }
    const value = setting.parse(raw);
    if (value === undefined) {
      faults.push(
        `${name}=${setting.secret ? '(hidden)' : onOneLine(raw)} is not allowed; allowed: ${setting.allowed}`,
      );
    } else values[camelCase(name)] = value;
  }
  if (faults.length) throw new SettingsError(faults);
  const settings = withMetricsAccess(withHost(values as unknown as Settings));
  refuseUnsafe(settings);
  return frozen(settings);
}

function withHost(settings: Settings): Settings {
  return { ...settings, host: settings.host ?? (settings.apiKeys.length ? '0.0.0.0' : '127.0.0.1') };
}

function withMetricsAccess(settings: Settings): Settings {
  const { metricsAccess = isLoopback(settings.host!) ? 'open' : 'keyed' } = settings;
  return { ...settings, metricsAccess };
}

/** Combinations that are each fine alone and harmful together. */
function refuseUnsafe(settings: Settings): void {
  const faults: string[] = [];
  if (settings.apiKeys.length === 0 && !isLoopback(settings.host!)) {
    faults.push(
      `HOST=${settings.host} without API_KEYS would let anyone in; set API_KEYS, or leave HOST at 127.0.0.1`,
    );
  }
  if (faults.length) throw new SettingsError(faults);
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

/** `DATABASE_URI` is a fault, `PATH` is not: only near misses of our own names are ours to judge. */
function misspelled(environment: Readonly<Record<string, string | undefined>>): string[] {
  const known = Object.keys(SETTINGS);
  return Object.keys(environment)
    .filter((name) => name.length >= 6 && !known.includes(name))
    .flatMap((name) => {
      const meant = nearest(name, known, 2);
      return meant && meant.length >= 6 ? [`${name} is not a setting; did you mean ${meant}?`] : [];
    });
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
