import { describe, expect, it } from '@jest/globals';
import { pageOf, pageRequest } from '../http/pages.ts';
import { MergedPages, type PageQuery } from './merged-pages.ts';
import type { Order } from './route-rules.ts';
import { slotOf } from './slot-of.ts';

type Item = Readonly<Record<string, unknown>>;

/** Lists as cells serve them, sorted already; each page ends at `most` items even if more are asked for. */
function cellsWith(lists: Record<string, readonly Item[]>, most = 500) {
  const asked: string[] = [];
  return {
    asked,
    cells: Object.keys(lists),
    pageOf: async (cell: string, query: URLSearchParams) => {
      asked.push(cell);
      const { limit, after = 0 } = pageRequest<number>(
        Object.fromEntries(query),
        (value) => typeof value === 'number',
      );
      const rows = lists[cell]!.map((item, index) => ({ ...item, nth: index + 1 })).slice(after);
      const size = Math.min(limit, most);
      const page = pageOf(
        rows,
        size,
        ({ nth }) => nth,
        ({ nth: _, ...item }) => item,
      );
      const cursors = rows.slice(0, size).map(({ nth }) => Buffer.from(String(nth)).toString('base64url'));
      return { status: 200, body: JSON.stringify(page), cursors };
    },
  };
}

async function allPages(cells: ReturnType<typeof cellsWith>, order: Order, limit: number): Promise<Item[]> {
  const items: Item[] = [];
  for (let query: PageQuery = { limit: String(limit) }; ; ) {
    const merged = await new MergedPages().merge({ ...cells, query, order });
    if (merged.kind === 'refused') throw new Error(merged.body);
    expect(merged.page.items.length).toBeLessThanOrEqual(limit);
    items.push(...merged.page.items);
    if (merged.page.next === null) return items;
    query = { limit: String(limit), cursor: merged.page.next };
  }
}

const by = (member: string, descending = false): Order => ({ member, descending });
const of = (...values: unknown[]) => values.map((value) => ({ value }));

describe('merged pages', () => {
  it.each([1, 2, 3, 500])('have each item once and in order, with pages of %d', async (limit) => {
    const cells = cellsWith({ home: of('a', 'd', 'e'), b: of('b', 'c', 'f'), c: of() });
    expect(await allPages(cells, by('value'), limit)).toEqual(of('a', 'b', 'c', 'd', 'e', 'f'));
  });

  it('stop where the page of a cell ends early: its next item is not known', async () => {
    const cells = cellsWith({ home: of('a', 'b', 'c'), b: of('d') }, 1);
    const merged = await new MergedPages().merge({ ...cells, query: {}, order: by('value') });
    expect(merged).toMatchObject({ kind: 'page', page: { items: of('a') } });
    expect(await allPages(cells, by('value'), 10)).toEqual(of('a', 'b', 'c', 'd'));
  });

  it('compare numbers as numbers, and have null last', async () => {
    const cells = cellsWith({ home: of(9, 100, null), b: of(10, 20) });
    expect(await allPages(cells, by('value'), 2)).toEqual(of(9, 10, 20, 100, null));
    const reversed = cellsWith({ home: of(null, 100, 9), b: of(20, 10) });
    expect(await allPages(reversed, by('value', true), 2)).toEqual(of(null, 100, 20, 10, 9));
  });

  it('compare texts by code points, not by UTF-16 units', async () => {
    const cells = cellsWith({ home: of('B', '\u{1F600}'), b: of('a', '\uFFFD') });
    expect(await allPages(cells, by('value'), 2)).toEqual(of('B', 'a', '\uFFFD', '\u{1F600}'));
  });

  it('of holds are in the order of slot and key, in which each cell lists them', async () => {
    const keys = Array.from({ length: 20 }, (_, nth) => ({ key: `c-${nth}` }));
    const sorted = keys.toSorted((a, b) => slotOf(a.key) - slotOf(b.key) || (a.key < b.key ? -1 : 1));
    const cells = cellsWith({
      home: sorted.filter(({ key }) => slotOf(key) % 2 === 0),
      b: sorted.filter(({ key }) => slotOf(key) % 2 === 1),
    });
    expect(await allPages(cells, 'slot-and-key', 3)).toEqual(sorted);
  });

  it('do not ask a cell again whose list has ended', async () => {
    const cells = cellsWith({ home: of('a'), b: of('b', 'c', 'd') });
    await allPages(cells, by('value'), 2);
    expect(cells.asked).toEqual(['home', 'b', 'b']);
  });

  it('refuse what a cell refuses, and a cursor that is not theirs', async () => {
    const refusing = { cells: ['home'], pageOf: async () => ({ status: 422, body: 'no', cursors: [] }) };
    const merged = await new MergedPages().merge({ ...refusing, query: {}, order: by('value') });
    expect(merged).toEqual({ kind: 'refused', status: 422, body: 'no' });
    const cursor = Buffer.from('{"home":1}').toString('base64url');
    await expect(
      new MergedPages().merge({ ...cellsWith({ home: [] }), query: { cursor }, order: by('value') }),
    ).rejects.toMatchObject({ problem: 'invalid' });
  });
});
