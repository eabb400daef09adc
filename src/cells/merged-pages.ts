import { type Page, pageRequest } from '../http/pages.ts';
import type { Order } from './route-rules.ts';
import { slotOf } from './slot-of.ts';

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
  readonly order: Order;
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
  async merge({ cells, query, order, pageOf }: MergeRequest): Promise<Merged> {
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
    const items = takeInOrder(heads, limit, comparisonOf(order));
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
function takeInOrder(heads: readonly Head[], limit: number, compare: Comparison): Item[] {
  const items: Item[] = [];
  const nextOf = (head: Head) => head.items[head.taken]!;
  while (items.length < limit && !heads.some(isCutOff)) {
    const ready = heads.filter((head) => head.taken < head.items.length);
    if (ready.length === 0) break;
    const first = ready.reduce((a, b) => (compare(nextOf(a), nextOf(b)) <= 0 ? a : b));
    items.push(nextOf(first));
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

type Comparison = (one: Item, other: Item) => number;

function comparisonOf(order: Order): Comparison {
  if (order === 'slot-and-key')
    return ({ key: one }, { key: other }) =>
      slotOf(String(one)) - slotOf(String(other)) || compareValues(one, other);
  const { member, descending } = order;
  return (one, other) => compareValues(one[member], other[member]) * (descending ? -1 : 1);
}

/** As the databases of cells sort: null is the largest, and text by code points (UTF-16 units would be another order). */
function compareValues(one: unknown, other: unknown): number {
  if (one === other) return 0;
  if (one === null || one === undefined) return 1;
  if (other === null || other === undefined) return -1;
  if (typeof one === 'number' && typeof other === 'number') return one - other;
  return Buffer.compare(Buffer.from(String(one)), Buffer.from(String(other)));
}
