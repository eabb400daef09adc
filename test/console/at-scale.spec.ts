import { cpus, loadavg } from 'node:os';
import { beforeAll, expect, it } from '@jest/globals';
import type { Page } from 'playwright-core';
import { describeInBrowser } from '../support/browser.ts';
import { sharedConsole } from '../support/console.ts';

const LISTENERS = 1_000;
const GROUPS = 500;
const MESSAGES = 10_000;
const DEAD = 10_000;
const PAYLOAD_BYTES = 1024 * 1024;
/** 100 rows of a list with the frame around it have about 3,000. */
const MAX_NODES = 6_000;
/** A page that does not respond for longer is frozen; on a busy machine everything takes as many times longer. */
const MAX_TASK_MS = 500 * Math.max(1, loadavg()[0]! / cpus().length);

/** More of the same, of what the data of the console have. */
const LISTENERS_LIKE_IT = `
  INSERT INTO listener (revision, name, definition, types, lanes, sealed, secret_from, origin, state_by, created_by, updated_by)
  SELECT (SELECT max(revision) FROM listener) + n, 'partner-' || n, definition || '{"types":["none"]}', '{none}', 1, sealed, secret_from, origin, state_by,
         created_by, updated_by
  FROM listener, generate_series(1, ${LISTENERS}) AS n WHERE name = 'search-index'`;
const GROUPS_LIKE_IT = `
  INSERT INTO consumer_group (name, definition, topics, session_ms, max_in_flight, attempts, takeover, on_expired, origin, created_by, updated_by)
  SELECT 'reader-' || n, definition, topics, session_ms, max_in_flight, attempts, takeover, on_expired, origin, created_by, updated_by
  FROM consumer_group, generate_series(1, ${GROUPS}) AS n WHERE name = 'analytics'`;

/** Finished messages, and dead letters of keys of their own. $1 how many, $2 status, $3 error */
const SEED = `
  INSERT INTO inbox (id, source, type, key, lane, payload, status, settled_at, lapsed_at, error)
  SELECT $2 || '-' || n, 's', 'urn:shop:none', $2 || n, 0, '{}', $2, now(), CASE WHEN $2 = 'dead' THEN now() END, $3
  FROM generate_series(1, $1::int) AS n`;

/** Notes the longest time in which the page could not respond. */
const WATCH_TASKS = `window.longest = 0;
new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) window.longest = Math.max(window.longest, duration);
}).observe({ type: 'longtask', buffered: true });`;

const NODES = `document.querySelectorAll('*').length`;

describeInBrowser('E14 the console with much to show', () => {
  const { replica, database, visit } = sharedConsole({ BODY_LIMIT: '2MiB' });

  beforeAll(async () => {
    await database.query(LISTENERS_LIKE_IT);
    await database.query(GROUPS_LIKE_IT);
    await database.query(SEED, [MESSAGES, 'finished', null]);
    await database.query(SEED, [DEAD, 'dead', 'no such customer']);
  });

  async function bounded(page: Page, name: string): Promise<void> {
    const [nodes, longest] = (await page.evaluate(`[${NODES}, window.longest]`)) as [number, number];
    process.stderr.write(`${name}: ${nodes} nodes, longest task ${Math.round(longest)} ms\n`);
    expect([name, Math.min(nodes, MAX_NODES)]).toEqual([name, nodes]);
    expect([name, Math.min(longest, MAX_TASK_MS)]).toEqual([name, longest]);
  }

  it.each([
    ['now', '#/now', 'The life of a message'],
    ['messages', '#/messages', /^(finished|dead)-\d+/],
    ['listeners', '#/listeners', 'partner-1'],
    ['topics', '#/topics', 'reader-1'],
    ['dead-letters', '#/dead-letters', 'no such customer'],
    ['holds', '#/holds', 'merging two accounts'],
    ['activity', '#/activity', 'listener.put'],
  ])('keeps the document of %s small and the page responsive', async (name, hash, text) => {
    const page = await visit(hash, { script: WATCH_TASKS });
    await page.locator('main').getByText(text).first().waitFor();
    await page.getByRole('button', { name: 'live', exact: true }).waitFor();
    await bounded(page, name);
  });

  it('shows 64 KiB of a payload of 1 MiB, all of it on demand, and downloads exactly its text', async () => {
    const [start, end] = ['{"amount":1.0,"exp":1e3,"text":"', '"}'];
    const payload = `${start}${'x'.repeat(PAYLOAD_BYTES - start.length - end.length)}${end}`;
    const body = `{"id":"large","type":"urn:shop:large","key":"large","payload":${payload}}`;
    expect((await replica.call('POST', '/v1/messages', { body })).status).toBe(202);
    const page = await visit('#/message?id=large', { script: WATCH_TASKS });
    const shown = page.locator('.payload pre');
    await page.getByText(/The first 64 KiB of 1 MiB/).waitFor();
    expect(await shown.textContent()).toBe(payload.slice(0, 64 * 1024));
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Download' }).click(),
    ]);
    const chunks: Buffer[] = [];
    for await (const chunk of await download.createReadStream()) chunks.push(chunk as Buffer);
    expect(Buffer.concat(chunks).toString() === payload).toBe(true);
    await page.getByRole('button', { name: 'Load all of it' }).click();
    await page.getByText(/The first 64 KiB/).waitFor({ state: 'detached' });
    expect((await shown.textContent()) === payload).toBe(true);
  });

  it('says of a number that is not counted to its end that it may be more', async () => {
    const { countedUpTo } = (await replica.call('GET', '/v1/backlog')).body;
    const more = Array.from({ length: countedUpTo }, (_, n) => ({ type: 'urn:shop:more', payload: n }));
    await replica.call('POST', '/v1/messages/batch', { body: { messages: more } });
    const page = await visit('#/listener?name=search-index');
    const numbers = page.getByRole('region', { name: 'Numbers' });
    await numbers.getByText(`${countedUpTo}+`, { exact: true }).waitFor();
  });

  it('revives 10,000 dead letters by their error in one action, with its progress', async () => {
    const page = await visit('#/dead-letters?stage=inbox&error=no such customer');
    await page.getByRole('button', { name: 'Revive what matches…' }).click();
    await page.getByLabel('Type 10,000 to confirm').fill('10000');
    await page.getByRole('button', { name: 'Revive 10,000' }).click();
    await page.getByText(/^[1-9][\d,]* of 10,000 revived/).waitFor();
    const [{ matched }] = (await replica.call('GET', '/v1/dead-letters/rulings')).body.items;
    expect(matched).toBe(DEAD);
  });
});
