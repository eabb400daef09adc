import type { Setting } from './setting.ts';
import { SETTINGS } from './settings.schema.ts';

/** The areas of `docs/settings.md`, each by its first setting in the order of the schema. */
const AREAS: Readonly<Partial<Record<string, string>>> = {
  HOST: 'The replica',
  API_KEYS: 'Access and metrics',
  REQUEST_TIMEOUT: 'HTTP limits and stopping',
  INGEST_FLUSH_MESSAGES: 'Accepting messages',
  INBOX_WORKERS: 'Processing messages',
  OUTBOX_LANES: 'Deliveries and listeners',
  RETENTION_FINISHED: 'Retention',
  DEAD_LETTER_ALERTS: 'Alerts and the watchdog',
  DATABASE_URL: 'Database',
};

const HEAD = ['| variable | default | allowed | what it does |', '|---|---|---|---|'];

/** The tables of `docs/settings.md`, generated from the schema that the service reads. */
export function settingsTable(): string {
  return Object.entries<Setting<unknown>>(SETTINGS)
    .flatMap(([name, setting]) => [...areaFrom(name), rowOf(name, setting)])
    .join('\n')
    .trim();
}

function areaFrom(name: string): readonly string[] {
  const area = AREAS[name];
  return area ? ['', `## ${area}`, '', ...HEAD] : [];
}

function rowOf(name: string, { default: byDefault, allowed, about }: Setting<unknown>): string {
  const shown = byDefault === undefined ? '–' : `\`${byDefault}\``;
  return `| \`${name}\` | ${shown} | ${allowed.replaceAll('|', '\\|')} | ${about} |`;
}
