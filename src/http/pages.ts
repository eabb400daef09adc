import { applyDecorators } from '@nestjs/common';
import { ApiQuery } from '@nestjs/swagger';
import { PAGE_BYTES, type Sized } from './page-bytes.ts';
import { Problem } from './problems.ts';

export interface Page<T> {
  readonly items: readonly T[];
  /** Give it back as `cursor` for what follows; null at the end. */
  readonly next: string | null;
}

export interface PageRequest<Cursor> {
  readonly limit: number;
  readonly after: Cursor | undefined;
}

const MAX_PAGE = 500;
export const PAGE_LIMIT_FORM = `1 to ${MAX_PAGE}; 50 by default. A page ends at ${PAGE_BYTES / 1024 / 1024} MiB, too: \`next\` goes on from there.`;

/** What a route that answers with pages takes. */
export function ApiPage(): MethodDecorator {
  return applyDecorators(
    ApiQuery({ name: 'cursor', required: false }),
    ApiQuery({ name: 'limit', required: false, description: PAGE_LIMIT_FORM }),
  );
}

/** `?limit=50&cursor=…`; a cursor is opaque to callers, and one that we did not make is refused. */
export function pageRequest<Cursor>(
  query: { limit?: string | undefined; cursor?: string | undefined },
  isCursor: (value: unknown) => value is Cursor,
): PageRequest<Cursor> {
  return {
    limit: limitOf(query.limit),
    after: query.cursor === undefined ? undefined : cursorOf(query.cursor, isCursor),
  };
}

/**
 * `rows` holds up to limit + 1: the one too many tells that there is more, and so does one that does not fit into the bytes
 * of a page. `edge`: the cursor of a page that has not looked at everything and found less.
 */
export function pageOf<Row, Item>(
  rows: readonly Row[],
  limit: number,
  cursorOfRow: (row: Row) => unknown,
  itemOf: (row: Row) => Item,
  edge?: unknown,
): Page<Item> {
  const fitting = rows.findIndex((row) => (row as Partial<Sized>).fits === false);
  const shown = rows.slice(0, fitting < 0 ? limit : Math.min(limit, fitting));
  const last = shown.at(-1);
  const next = rows.length > shown.length && last !== undefined ? cursorOfRow(last) : edge;
  return { items: shown.map(itemOf), next: next === undefined ? null : encode(next) };
}

function limitOf(text: string | undefined): number {
  if (text === undefined) return 50;
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
    // refused below
  }
  throw new Problem('invalid', 'cursor is not one that this list gave; start again without it.');
}
