import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { LiveFrames } from '../../src/upkeep/live/live-frames.ts';
import { LiveStore } from '../../src/upkeep/live/live-store.ts';
import { describeInBrowser } from '../support/browser.ts';
import { sharedConsole } from '../support/console.ts';
import { type PrefixProxy, startPrefixProxy } from '../support/prefix-proxy.ts';
import { screenshot, violationsOf } from '../support/screen-checks.ts';
import { until } from '../support/until.ts';

/** Nothing repeats by itself. */
const NO_INTERVALS = 'setInterval = () => 0;';

const VISIBLE = (isVisible: boolean) =>
  `Object.defineProperty(document, 'hidden', { value: ${!isVisible}, configurable: true });
   document.dispatchEvent(new Event('visibilitychange'));`;

describeInBrowser('E14 old data in the console', () => {
  const { replica, visit } = sharedConsole();
  let proxy: PrefixProxy;

  beforeAll(async () => {
    proxy = await startPrefixProxy(replica.url, '/x/y/');
  });
  afterAll(() => proxy?.close());

  it('say how old they are while they cannot be read again', async () => {
    const page = await visit('#/holds', { at: proxy.url });
    await page.getByText('merging two accounts').waitFor();
    proxy.refuse('/v1/holds', 502);
    const age = page.getByText(/^as of \d+ s ago$/);
    await age.waitFor();
    expect(await page.getByText('merging two accounts').count()).toBe(1);
    proxy.refuse('/v1/holds', 0);
    await age.waitFor({ state: 'detached' });
  });

  it('are read again at once when a hidden tab is seen again', async () => {
    const page = await visit('#/holds', { script: NO_INTERVALS });
    await page.getByText('merging two accounts').waitFor();
    await replica.call('PUT', '/v1/keys/meanwhile/hold', { body: { reason: 'set while nobody saw it' } });
    await page.evaluate(VISIBLE(false));
    await page.evaluate(VISIBLE(true));
    await page.getByText('set while nobody saw it').waitFor();
    await replica.call('DELETE', '/v1/keys/meanwhile/hold');
  });

  it('are not waited for without a word if the database is away when the console is opened', async () => {
    const store = replica.app.nest.get(LiveStore);
    const read = store.read.bind(store);
    store.read = () => Promise.reject(new Error('planted'));
    try {
      // The last snapshot of an earlier viewer is not used any more.
      const frames = replica.app.nest.get(LiveFrames);
      await until(async () => (await frames.next(0)).observedAt === undefined);
      const page = await visit('#/now');
      await page.getByText('The backlog cannot be read; see the log. It is tried again by itself.').waitFor();
      await page.getByRole('button', { name: 'lost', exact: true }).waitFor();
      store.read = read;
      await page.getByText('The life of a message').waitFor();
      await page.getByRole('button', { name: 'live', exact: true }).waitFor();
    } finally {
      store.read = read;
    }
  });

  it('are narrowed to several statuses and to an error', async () => {
    const page = await visit('#/messages');
    const rows = page.locator('tbody tr');
    await rows.first().waitFor();
    await page.locator('.choices summary').click();
    for (const status of ['dead', 'scheduled']) await page.getByRole('checkbox', { name: status }).check();
    await until(async () => (await rows.count()) === 4);
    expect(await violationsOf(page)).toEqual([]);
    await screenshot(page, 'messages-statuses-light');
    expect(await page.evaluate('location.hash')).toBe('#/messages?status=scheduled%2Cdead');
    await page.getByRole('checkbox', { name: 'scheduled' }).uncheck();
    await until(async () => (await rows.count()) === 3);
    await page.getByLabel('Error', { exact: true }).fill('no such error');
    await page.keyboard.press('Enter');
    await page.getByText('No message matches').waitFor();
  });

  it('are narrowed to the holds of a kind, and to the settings that are set until all are asked for', async () => {
    const page = await visit('#/holds');
    const rows = page.locator('tbody tr');
    await page.getByText('waits behind a dead letter').first().waitFor();
    await page.getByLabel('Why').selectOption('operator');
    await page.getByText('waits behind a dead letter').first().waitFor({ state: 'detached' });
    expect(await rows.filter({ hasText: 'set by an operator' }).count()).toBe(await rows.count());
    await page.getByText('merging two accounts').waitFor();

    await page.evaluate(`location.hash = '#/system'`);
    const settings = page.getByRole('table', { name: 'Settings' });
    await settings.getByText('ENVIRONMENT', { exact: true }).waitFor();
    expect(await settings.getByText('LOG_LEVEL', { exact: true }).count()).toBe(0);
    await page.getByRole('button', { name: /^Show all \d+ settings$/ }).click();
    await settings.getByText('LOG_LEVEL', { exact: true }).waitFor();
    expect(await settings.getByText(/\]\(/).count()).toBe(0);
  });

  it('of later pages are not mixed with a first page that was read again', async () => {
    const messages = Array.from({ length: 60 }, (_, n) => ({ id: `paged-${n}`, type: 'paged', payload: n }));
    await replica.call('POST', '/v1/messages/batch', { body: { messages } });
    const page = await visit('#/messages?type=paged');
    const rows = page.locator('tbody tr');
    await until(async () => (await rows.count()) === 50);
    await page.getByRole('button', { name: 'Load more messages' }).click();
    await until(async () => (await rows.count()) === 60);
    const newer = messages.slice(0, 5).map((message) => ({ ...message, id: `newer-${message.id}` }));
    await replica.call('POST', '/v1/messages/batch', { body: { messages: newer } });
    await page.keyboard.press('r');
    await page.getByText('newer-paged-0').first().waitFor();
    const shown = await rows.locator('td:first-child a').allTextContents();
    expect(new Set(shown).size).toBe(shown.length);
    expect(await rows.count()).toBe(50);
  });
});
