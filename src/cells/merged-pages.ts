import { type Page, pageRequest } from '../http/pages.ts';

export interface PageQuery {
  readonly limit?: string;
  readonly cursor?: string;
  readonly after?: string;
  readonly [name: string]: string | undefined;
}

/** A page of one cell, as it was answered. */
export interface CellPage {
  readonly status: number;
  /** JSON text. */
  readonly body: string;
  /** The cursor after each item. */
  readonly cursors: readonly string[];
}

interface MergeRequest {
  readonly cells: readonly string[];
  readonly query: PageQuery;
  /** The member of the items that the list is sorted by. */
  readonly rule: { readonly sort: string; readonly descending: boolean };
  readonly pageOf: (cell: string, query: URLSearchParams) => Promise<CellPage>;
}

type Item = Readonly<Record<string, unknown>>;

export type Merged =
  | { readonly kind: 'page'; readonly page: Page<Item> }
  /** A cell has refused the request. */
  | { readonly kind: 'refused'; readonly status: number; readonly body: string };

/** Where each cell continues; null: it has nothing more. A cell that is not in it begins at its start. */
type Cursors = Readonly<Record<string, string | null>>;

/** One cell's page while it is merged. */
interface Head {
  readonly cell: string;
  readonly items: readonly Item[];
  readonly cursors: readonly string[];
  readonly next: string | null;
  taken: number;
}

/** Merges the pages of several cells into one that is sorted like each of them. */
export class MergedPages {
  async merge({ cells, query, rule, pageOf }: MergeRequest): Promise<Merged> {
    const { limit, after = {} } = pageRequest<Cursors>(query, isCursors);
    const unfinished = cells.filter((cell) => after[cell] !== null);
    const pages = await Promise.all(
      unfinished.map(async (cell) => ({ cell, ...(await pageOf(cell, queryFor(query, after[cell]))) })),
    );
    const refused = pages.find(({ status }) => status >= 300);
    if (refused) return { kind: 'refused', status: refused.status, body: refused.body };
    const heads = pages.map(({ cell, body, cursors }): Head => {
      const { items, next } = JSON.parse(body) as Page<Item>;
      return { cell, items, cursors, next, taken: 0 };
    });
    const items = takeInOrder(heads, limit, rule);
    const cursors: Cursors = {
      ...after,
      ...Object.fromEntries(heads.map((head) => [head.cell, cursorOf(head, after)])),
    };
    const isLast = cells.every((cell) => cursors[cell] === null);
    const next = isLast ? null : Buffer.from(JSON.stringify(cursors)).toString('base64url');
    return { kind: 'page', page: { items, next } };
  }
}

/** Stops where a cell's page ends before its list does: what comes next there is not known. */
function takeInOrder(
  heads: readonly Head[],
  limit: number,
  { sort, descending }: MergeRequest['rule'],
): Item[] {
  const items: Item[] = [];
  const comesFirst = (a: Head, b: Head) => {
    const [one, other] = [textOf(a.items[a.taken]![sort]), textOf(b.items[b.taken]![sort])];
    return descending ? one >= other : one <= other;
  };
  while (items.length < limit && !heads.some(isCutOff)) {
    const ready = heads.filter((head) => head.taken < head.items.length);
    if (ready.length === 0) break;
    const first = ready.reduce((a, b) => (comesFirst(a, b) ? a : b));
    items.push(first.items[first.taken]!);
    first.taken += 1;
  }
  return items;
}

function isCutOff({ items, taken, next }: Head): boolean {
  return taken === items.length && next !== null;
}

/** `''` begins at the start: nothing of the cell was taken yet. */
function cursorOf({ cell, items, cursors, next, taken }: Head, after: Cursors): string | null {
  if (taken === items.length) return next;
  return taken === 0 ? (after[cell] ?? '') : cursors[taken - 1]!;
}

function queryFor(query: PageQuery, cursor: string | null | undefined): URLSearchParams {
  const own = new URLSearchParams(query as Record<string, string>);
  own.delete('cursor');
  if (cursor) own.set('cursor', cursor);
  return own;
}

function isCursors(value: unknown): value is Cursors {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.values(value).every((one) => one === null || typeof one === 'string');
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : value === null || value === undefined ? '' : String(value);
}
