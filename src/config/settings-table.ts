import type { Setting } from './setting.ts';
import { SETTINGS } from './settings.schema.ts';

/** The table of settings for the documentation, generated so that it is always correct. */
export function settingsTable(): string {
  const rows = Object.entries<Setting<unknown>>(SETTINGS).map(
    ([name, { default: byDefault, allowed, about }]) =>
      `| \`${name}\` | ${byDefault === undefined ? '–' : `\`${byDefault}\``} | ${allowed.replaceAll('|', '\\|')} | ${about} |`,
  );
  return ['| variable | default | allowed | what it does |', '|---|---|---|---|', ...rows].join('\n');
}
