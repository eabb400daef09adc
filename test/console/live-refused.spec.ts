import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Page } from 'playwright-core';
import { LiveStreams } from '../../src/upkeep/live/live-streams.ts';
import { describeInBrowser } from '../support/browser.ts';
import { sharedConsole } from '../support/console.ts';
import { openEventStream } from '../support/event-stream.ts';
import { type PrefixProxy, startPrefixProxy } from '../support/prefix-proxy.ts';
import { until } from '../support/until.ts';

const REFUSED_MS = 10_000;
/** Waits of at least 0.5, 1, 2, 4 and 7.5 s: more attempts do not fit into the time, and each asks who is signed in. */
const MAX_REQUESTS = 2 * 5;

const VISIBLE = (isVisible: boolean) =>
  `Object.defineProperty(document, 'hidden', { value: ${!isVisible}, configurable: true });
   document.dispatchEvent(new Event('visibilitychange'));`;

describeInBrowser('E15 the stream of the console when it is refused', () => {
  const { replica, visit } = sharedConsole();
  let proxy: PrefixProxy;
  const open = () => replica.app.nest.get(LiveStreams).size;

  beforeAll(async () => {
    proxy = await startPrefixProxy(replica.url, '/x/y/');
  });
  afterAll(() => proxy?.close());

  async function isLive(page: Page): Promise<void> {
    await page.getByRole('button', { name: 'live', exact: true }).waitFor();
  }

  /** Requests of the page for the stream and the session from now on, until the time is over. */
  async function requestsWithin(page: Page, ms: number): Promise<number> {
    let requests = 0;
    const counted = /\/v1\/(live|session)$/;
    page.on('request', (request) => {
      if (counted.test(request.url())) requests += 1;
    });
    const startedAt = performance.now();
    await until(() => performance.now() - startedAt > ms, ms + 10_000);
    return requests;
  }

  it.each([502, 503])(
    'keeps the dialog while a proxy responds %d, and opens one stream after it',
    async (status) => {
      const page = await visit('#/holds', { at: proxy.url });
      await isLive(page);
      await page.getByRole('button', { name: 'Hold a key…' }).click();
      await page.getByRole('dialog').getByLabel('Key').fill('typed-before');
      proxy.refuse('/v1/live', status);
      proxy.refuse('/v1/session', status);
      proxy.cut();
      proxy.restore();
      try {
        await page.getByRole('button', { name: /^lost/, includeHidden: true }).waitFor();
        expect(await requestsWithin(page, REFUSED_MS)).toBeLessThanOrEqual(MAX_REQUESTS);
        expect(await page.getByRole('dialog').getByLabel('Key').inputValue()).toBe('typed-before');
      } finally {
        proxy.refuse('/v1/live', 0);
        proxy.refuse('/v1/session', 0);
      }
      await page.getByRole('button', { name: 'live', exact: true, includeHidden: true }).waitFor();
      await page.keyboard.press('Escape');
      expect(open()).toBe(1);
      await page.evaluate(VISIBLE(false));
      await until(() => open() === 0);
      await page.evaluate(VISIBLE(true));
      await until(() => open() === 1);
      await page.getByRole('button', { name: 'live', exact: true }).click();
      await until(() => open() === 0);
      await page.context().close();
    },
  );

  it('opens one stream once the session has room for it, and none when it is over', async () => {
    const { body } = await replica.call('POST', '/v1/api-keys', { body: { name: 'busy', scopes: ['read'] } });
    const page = await visit('#/now', { key: body.key });
    await isLive(page);
    const cookie = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
    const others = await Promise.all(
      Array.from({ length: 7 }, () => openEventStream(`${replica.url}/v1/live`, { cookie })),
    );
    await page.evaluate(VISIBLE(false));
    await until(() => open() === 7);
    others.push(await openEventStream(`${replica.url}/v1/live`, { cookie }));
    await page.evaluate(VISIBLE(true));
    expect(await requestsWithin(page, REFUSED_MS)).toBeLessThanOrEqual(MAX_REQUESTS);
    await page.getByText('The life of a message').waitFor();
    for (const stream of others) stream.close();
    await isLive(page);
    expect(open()).toBe(1);

    await replica.call('DELETE', `/v1/api-keys/${body.id}`);
    await page.getByLabel('API key').waitFor();
    await until(() => open() === 0);
    expect(await requestsWithin(page, REFUSED_MS)).toBe(0);
  });
});
