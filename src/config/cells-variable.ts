import { parseDatabaseUrl } from './database-url-variable.ts';
import { Refused } from './setting.ts';

/** A cell: a PostgreSQL database, or a schema of one, with a Sluice of its own. */
export interface CellUrl {
  readonly name: string;
  readonly url: string;
}

export const CELLS_FORM =
  '`name=url,name=url…`, the first is the home cell; names of up to 30 small letters, digits and `-`';
export const CELL_NAMES_FORM = 'names of CELLS, separated by commas';

const NAME = /^[a-z][a-z0-9-]{0,29}$/;
/** A URL may name several hosts, with commas between them. */
const COMMA_BEFORE_ENTRY = /,(?=\s*[a-z0-9-]+=[a-z]+:\/\/)/;
const MAX_CELLS = 64;

/** An entry is reported by its number and name; its URL can hold a password and is never quoted. */
export function parseCells(raw: string): readonly CellUrl[] | Refused {
  const cells: CellUrl[] = [];
  for (const [index, entry] of raw.split(COMMA_BEFORE_ENTRY).entries()) {
    const at = entry.indexOf('=');
    const name = entry.slice(0, Math.max(0, at)).trim();
    if (!NAME.test(name)) return new Refused(`entry ${index + 1} does not begin with <name>=`);
    const url = parseDatabaseUrl(entry.slice(at + 1));
    if (url === undefined) return new Refused(`entry ${index + 1} (${name}) has no valid URL`);
    if (url instanceof Refused) return new Refused(`entry ${index + 1} (${name}): ${url.reason}`);
    if (cells.some((one) => one.name === name)) return new Refused(`two entries have the name ${name}`);
    if (cells.some((one) => one.url === url)) return new Refused(`${name} has the URL of another entry`);
    cells.push({ name, url });
  }
  if (cells.length > MAX_CELLS) return new Refused(`there are more than ${MAX_CELLS} entries`);
  return cells;
}

export function parseCellNames(raw: string): readonly string[] | undefined {
  const names = raw.split(',').map((name) => name.trim());
  return names.every((name) => NAME.test(name)) ? names : undefined;
}
