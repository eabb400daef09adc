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

it('reads once per second for any number of pages, and none is older than a minute', async () => {
  const { get, reads } = setUp();
  const pages = Array.from({ length: 200 }, (_, page) => `message-${page}`);
  for (const page of pages) await get(page, 0, 10_000);
  for (let nowMs = 15_000; nowMs < 65_000; nowMs += 5_000)
    for (const page of pages) await get(page, 5_000, nowMs);
  // In 50 s, and five that were not used before.
  expect(reads() - pages.length).toBeLessThanOrEqual(50 + 5);
  expect(reads() - pages.length).toBeGreaterThan(45);
  const before = reads();
  for (const page of pages) await get(page, 5_000, 125_000);
  expect(reads() - before).toBe(200);
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
  for (let page = 0; page <= 256; page += 1) await get(`page-${page}`, 0, 1_000);
  expect(await get('page-1', 5_000, 1_001)).toBe(2);
  expect(await get('page-0', 5_000, 1_001)).toBe(258);
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
