import { expect, it } from '@jest/globals';
import { Problem } from './problems.ts';
import { SharedReads } from './shared-reads.ts';

function setUp() {
  const shared = new SharedReads();
  let reads = 0;
  const read = async () => {
    reads += 1;
    return reads;
  };
  const get = (name: string, maxAgeMs: number, nowMs: number) =>
    shared.get(name, maxAgeMs, read, nowMs).value;
  return { shared, get, reads: () => reads };
}

it('reads once for all who accept a response of that age', async () => {
  const { get, reads } = setUp();
  const all = Array.from({ length: 200 }, (_, viewer) => get('groups', 5_000, 10_000 + viewer * 20));
  expect(new Set(await Promise.all(all))).toEqual(new Set([1]));
  expect(await get('groups', 5_000, 15_000)).toBe(2);
  expect(reads()).toBe(2);
});

it('reads at once for a page that was opened, and shares what it got', async () => {
  const { get } = setUp();
  expect(await get('holds', 0, 10_000)).toBe(1);
  expect(await get('holds', 0, 10_001)).toBe(2);
  expect(await get('holds', 5_000, 10_002)).toBe(2);
  expect(await get('keys', 5_000, 10_002)).toBe(3);
});

it.each([20, 200, 400])('reads once per second for %i pages, each in its turn', async (count) => {
  const { shared, get, reads } = setUp();
  const pages = Array.from({ length: count }, (_, page) => `message-${page}`);
  for (const page of pages) await get(page, 0, 10_000);
  const SECONDS = 1_200;
  let oldestMs = 0;
  for (let second = 15; second < 10 + SECONDS; second += 5)
    for (const page of pages) {
      // Never at the same time as the page before, and always at the same one within five seconds.
      const nowMs = second * 1_000 + pages.indexOf(page) * 10;
      await get(page, 5_000, nowMs);
      oldestMs = Math.max(oldestMs, nowMs - shared.get(page, 1e9, async () => 0, nowMs).atMs);
    }
  const repeated = reads() - count;
  expect(repeated).toBeLessThanOrEqual(SECONDS + 5);
  expect(repeated).toBeGreaterThan(0.8 * (SECONDS - count));
  // Most often a second for each page; two of them where all were opened at once.
  expect(oldestMs).toBeLessThan((2 * count + 15) * 1_000);
});

it('reads less for others after a page that is not kept had to be read', async () => {
  const { shared, get } = setUp();
  await get('kept', 0, 10_000);
  const failed = () => Promise.reject(new Error('not kept'));
  for (let page = 0; page < 20; page += 1)
    await expect(shared.get(`page-${page}`, 5_000, failed, 10_000).value).rejects.toThrow();
  for (let nowMs = 10_000; nowMs < 26_000; nowMs += 1_000) expect(await get('kept', 1_000, nowMs)).toBe(1);
  expect(await get('kept', 1_000, 27_000)).toBe(2);
});

it('forgets a page that nobody repeats, and keeps the one that is repeated', async () => {
  const { get, reads } = setUp();
  for (let page = 0; page < 400; page += 1) await get(`closed-${page}`, 0, 10_000);
  await get('open', 0, 10_000);
  for (let nowMs = 15_000; nowMs <= 75_000; nowMs += 5_000) await get('open', 5_000, nowMs);
  // The others no longer take a turn.
  const before = reads();
  for (let nowMs = 80_000; nowMs < 130_000; nowMs += 5_000) await get('open', 5_000, nowMs);
  expect(reads() - before).toBe(10);
});

it('keeps a refusal, and nothing that failed for another reason', async () => {
  const { shared } = setUp();
  const refused = () => Promise.reject(new Problem('not-found', 'No such message.'));
  await expect(shared.get('gone', 5_000, refused, 1).value).rejects.toThrow('No such message.');
  await expect(shared.get('gone', 5_000, () => Promise.resolve('found'), 2).value).rejects.toThrow();
  const failed = () => Promise.reject(new Error('the database is away'));
  await expect(shared.get('broken', 5_000, failed, 1).value).rejects.toThrow('away');
  expect(await shared.get('broken', 5_000, () => Promise.resolve('back'), 2).value).toBe('back');
});

it('keeps a limited number of responses', async () => {
  const { get } = setUp();
  for (let page = 0; page < 4_096; page += 1) await get(`page-${page}`, 0, 1_000);
  // What was asked for last stays.
  expect(await get('page-0', 5_000, 1_001)).toBe(1);
  expect(await get('one more', 0, 1_001)).toBe(4_097);
  expect(await get('page-0', 5_000, 1_001)).toBe(1);
  expect(await get('page-2', 5_000, 1_001)).toBe(3);
  expect(await get('page-1', 5_000, 1_001)).toBe(4_098);
});

it('keeps a limited number of bytes, whatever the pages are', async () => {
  const shared = new SharedReads();
  const page = 'x'.repeat(1024 * 1024);
  const read = (name: string, nowMs: number) =>
    shared.get(name, 5_000, async () => ({ items: [page] }), nowMs);
  for (let n = 0; n < 20; n += 1) await read(`page-${n}`, 1_000).value;
  // The time of a read tells whether it was kept.
  expect(read('page-19', 1_001).atMs).toBe(1_000);
  expect(read('page-5', 1_001).atMs).toBe(1_000);
  expect(read('page-4', 1_001).atMs).toBe(1_001);
});
