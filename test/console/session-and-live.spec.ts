import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { ADMIN_KEY } from '../support/app.ts';
import { describeInBrowser } from '../support/browser.ts';
import { sharedConsole } from '../support/console.ts';
import { REPEATED } from '../support/console-repeats.ts';
import { type PrefixProxy, startPrefixProxy } from '../support/prefix-proxy.ts';
import { until } from '../support/until.ts';

describeInBrowser('E15 the session and the stream of the console', () => {
  const { replica, visit } = sharedConsole();
  let proxy: PrefixProxy;

  beforeAll(async () => {
    proxy = await startPrefixProxy(replica.url, '/x/y/');
  });
  afterAll(() => proxy?.close());

  it('signs in with an API key, keeps the screen that was asked for, and signs out', async () => {
    const page = await visit('#/listeners', { key: null });
    await page.getByLabel('API key').and(page.locator(':focus')).waitFor();
    await page.keyboard.type('sk_nobody_0123456789abcdefghij');
    await page.keyboard.press('Enter');
    await page.getByText(/No live API key is this one/).waitFor();
    await page.getByLabel('API key').fill(ADMIN_KEY);
    await page.keyboard.press('Enter');
    await page.getByText('search-index').waitFor();
    await page.getByText('test', { exact: true }).waitFor();
    await page.getByRole('button', { name: /Sign out/ }).click();
    await page.getByLabel('API key').waitFor();
  });

  it('signs out when its key is revoked', async () => {
    const { body } = await replica.call('POST', '/v1/api-keys', {
      body: { name: 'night', scopes: ['read'] },
    });
    const page = await visit('#/topics', { key: body.key });
    await page.getByText('analytics').first().waitFor();
    await replica.call('DELETE', `/v1/api-keys/${body.id}`);
    await page.getByLabel('API key').waitFor();
  });

  it('works below any path of a proxy', async () => {
    const page = await visit('#/now', { at: proxy.url });
    await page.getByText('The life of a message').waitFor();
    await page.getByRole('link', { name: /^Dead letters/ }).click();
    await page.getByText('responded 422').first().waitFor();
    await page.reload();
    await page.getByText('responded 422').first().waitFor();
  });

  it('shows what changes without a reload', async () => {
    const page = await visit('#/now');
    await page.getByText('The life of a message').waitFor();
    await page.getByRole('button', { name: /^Show \d+ more$/ }).click();
    await replica.call('PUT', '/v1/keys/suddenly/hold', { body: { reason: 'seen at once' } });
    await page.getByText(/The key suddenly is held indefinitely/).waitFor();
    await replica.call('DELETE', '/v1/keys/suddenly/hold');
    await page.getByText(/The key suddenly is held indefinitely/).waitFor({ state: 'detached' });
  });

  it('marks on Now the listeners to which nothing is sent, and why', async () => {
    const page = await visit('#/now');
    const rows = page.getByRole('table', { name: 'Listeners' }).getByRole('row');
    for (const [name, state] of [
      ['partner', 'paused'],
      ['legacy-erp', 'disabled'],
    ])
      await rows.filter({ hasText: name! }).getByText(state!, { exact: true }).waitFor();
    expect(await rows.filter({ hasText: 'crm' }).locator('.status').count()).toBe(0);
  });

  it('says that the connection is lost, greys the numbers, and catches up', async () => {
    const page = await visit('#/now', { at: proxy.url });
    await page.getByRole('button', { name: 'live', exact: true }).waitFor();
    proxy.cut();
    try {
      await page.getByRole('button', { name: /lost \d+ s ago/ }).waitFor();
      expect(await page.locator('.frame.stale').count()).toBe(1);
    } finally {
      proxy.restore();
    }
    await page.getByRole('button', { name: 'live', exact: true }).waitFor();
    expect(await page.locator('.frame.stale').count()).toBe(0);
  });

  it('repeats only requests whose responses all viewers share', async () => {
    const page = await visit('#/now', { script: FAST_INTERVALS });
    const repeated = new Map<string, number>();
    const ages: Promise<string | null>[] = [];
    page.on('response', (response) => {
      const [, seconds] =
        /max-age=([1-9]\d*)/.exec(response.request().headers()['cache-control'] ?? '') ?? [];
      if (seconds === undefined) return;
      const { pathname, search } = new URL(response.url());
      repeated.set(pathname + search, Number(seconds));
      ages.push(response.headerValue('age'));
    });
    for (const [hash, expected] of Object.entries(REPEATED)) {
      await page.evaluate(`location.hash = '${hash}'`);
      await until(() => expected.every(([path]) => repeated.has(path)));
    }
    expect(repeated).toEqual(new Map(Object.values(REPEATED).flat()));
    for (const age of ages) expect(await age).toMatch(/^\d+$/);
  });

  it('stops when it is paused: nothing changes and no stream is open', async () => {
    const page = await visit('#/now');
    await page.getByRole('button', { name: 'live', exact: true }).waitFor();
    const ended = page.waitForEvent('requestfailed', (request) => request.url().endsWith('/v1/live'));
    await page.getByRole('button', { name: 'live', exact: true }).click();
    await page.getByRole('button', { name: 'paused' }).waitFor();
    await ended;
    await page.getByRole('button', { name: 'paused' }).click();
    await page.getByRole('button', { name: 'live', exact: true }).waitFor();
  });

  it('closes the stream while its tab is hidden', async () => {
    const page = await visit('#/now');
    await page.getByRole('button', { name: 'live', exact: true }).waitFor();
    const ended = page.waitForEvent('requestfailed', (request) => request.url().endsWith('/v1/live'));
    await page.evaluate(HIDE);
    await ended;
    const opened = page.waitForEvent('request', (request) => request.url().endsWith('/v1/live'));
    await page.evaluate(SHOW);
    await opened;
  });
});

/** Every interval of the page is a twentieth as long. */
const FAST_INTERVALS = `const original = setInterval; setInterval = (run, ms) => original(run, ms / 20);`;

const HIDE = `Object.defineProperty(document, 'hidden', { value: true, configurable: true });
document.dispatchEvent(new Event('visibilitychange'));`;
const SHOW = `Object.defineProperty(document, 'hidden', { value: false, configurable: true });
document.dispatchEvent(new Event('visibilitychange'));`;
