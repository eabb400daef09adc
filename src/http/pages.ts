import { applyDecorators } from '@nestjs/common';
import { ApiQuery, ApiResponse } from '@nestjs/swagger';
import { isName } from './names.ts';
import { PAGE_BYTES, type Sized } from './page-bytes.ts';
import { Problem } from './problems.ts';
import { queryOf } from './query.ts';
import { list, nullable, object, type Schema, TEXT } from './schema.ts';

export interface Page<T> {
  readonly items: readonly T[];
  /** The `cursor` parameter of the next page; null on the last page. */
  readonly next: string | null;
}

export interface PageRequest<Cursor> {
  readonly limit: number;
  readonly after: Cursor | undefined;
}

const MAX_PAGE = 500;
const DEFAULT_PAGE = 50;

/** `?limit=`, of a list that is not paged. */
export const LIMIT = {
  name: 'limit',
  required: false,
  schema: { type: 'integer', minimum: 1, maximum: MAX_PAGE, default: DEFAULT_PAGE },
  description: 'Maximum number of items.',
} as const;

const PAGE_LIMIT = {
  ...LIMIT,
  description: `Maximum number of items. A page also ends at ${PAGE_BYTES / 1024 / 1024} MiB; \`next\` continues from there.`,
} as const;

const NEXT = { ...nullable(TEXT), description: 'The cursor of the next page; null on the last page.' };

/** Documents the parameters and the response of a paged list in the OpenAPI document. */
export function ApiPage(item: Schema): MethodDecorator {
  return applyDecorators(
    ApiQuery({ name: 'cursor', required: false, type: String, description: '`next` of the previous page.' }),
    ApiQuery(PAGE_LIMIT),
    ApiResponse({ status: 200, description: 'A page.', schema: object({ items: list(item), next: NEXT }) }),
  );
}

/** Reads `?limit=50&cursor=…`. A cursor is opaque to callers; one that this list did not return is rejected. */
export function pageRequest<Cursor>(
  query: { limit?: string | undefined; cursor?: string | undefined },
  isCursor: (value: unknown) => value is Cursor,
): PageRequest<Cursor> {
  return {
    limit: limitOf(query.limit),
    after: query.cursor === undefined ? undefined : cursorOf(query.cursor, isCursor),
  };
}

/** The header of a request for a page that is merged with those of other cells. */
export const MERGED_HEADER = 'sluice-merged';

/** On a page: the key of a function that returns the cursor after each of its items, by which pages of several cells are merged. */
const ITEM_CURSORS = Symbol('cursors');

/** Undefined: it is not a page. */
export function itemCursors(page: unknown): readonly string[] | undefined {
  return (page as { [ITEM_CURSORS]?: () => string[] } | null | undefined)?.[ITEM_CURSORS]?.();
}

/**
 * Makes a page of `rows`, of which there are up to limit + 1: an extra row means that there is another page, and so does a
 * row that does not fit into PAGE_BYTES. `edge` is the cursor for a scan that stopped before it filled the page.
 */
export function pageOf<Row, Item>(
  rows: readonly Row[],
  limit: number,
  cursorOfRow: (row: Row) => unknown,
  itemOf: (row: Row) => Item,
  edge?: unknown,
): Page<Item> {
  const tooLarge = rows.findIndex((row) => (row as Partial<Sized>).fits === false);
  const shown = rows.slice(0, tooLarge < 0 ? limit : Math.min(limit, tooLarge));
  const last = shown.at(-1);
  const next = rows.length > shown.length && last !== undefined ? cursorOfRow(last) : edge;
  const page = { items: shown.map(itemOf), next: next === undefined ? null : encode(next) };
  const cursors = () => shown.map((row) => encode(cursorOfRow(row)));
  return Object.defineProperty(page, ITEM_CURSORS, { value: cursors });
}

/** A page of a list that is sorted by name. `read` returns the rows after a name. */
export async function pageByName<Row extends { readonly name: string }, Item>(
  query: unknown,
  read: (after: string | undefined, limit: number) => Promise<readonly Row[]>,
  itemOf: (row: Row) => Item | Promise<Item>,
): Promise<Page<Item>> {
  const { after, limit } = pageRequest(queryOf(query, ['limit', 'cursor']), isName);
  const { items, next } = pageOf(await read(after, limit + 1), limit, ({ name }) => name, itemOf);
  return { items: await Promise.all(items), next };
}

function limitOf(text: string | undefined): number {
  if (text === undefined) return DEFAULT_PAGE;
  const limit = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > MAX_PAGE)
    throw new Problem('invalid', `limit must be a whole number from 1 to ${MAX_PAGE}.`);
  return limit;
}

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

function cursorOf<Cursor>(text: string, isCursor: (value: unknown) => value is Cursor): Cursor {
  try {
    const value: unknown = JSON.parse(Buffer.from(text, 'base64url').toString());
    if (isCursor(value)) return value;
  } catch {
    // rejected below
  }
  throw new Problem('invalid', 'cursor is not valid for this list. Start over without it.');
}
