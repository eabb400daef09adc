import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Page } from 'playwright-core';
import { startApp } from '../support/app.ts';
import { describeInBrowser } from '../support/browser.ts';
import { sharedConsole } from '../support/console.ts';
import { type PrefixProxy, startPrefixProxy } from '../support/prefix-proxy.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

const API = { ROLES: 'api', DRAIN_GRACE: '2s', ENVIRONMENT: 'test' };

describeInBrowser('E15 the console while something else fails', () => {
  const { replica, database, visit } = sharedConsole();
  let proxy: PrefixProxy;

  beforeAll(async () => {
    proxy = await startPrefixProxy(replica.url, '/x/y/');
  });
  afterAll(() => proxy?.close());

  const isLive = (page: Page) => page.getByRole('button', { name: 'live', exact: true }).waitFor();
  const isLost = async (page: Page) => {
    await page.getByRole('button', { name: /^lost \d+ s ago/ }).waitFor();
    expect(await page.locator('.frame.stale').count()).toBe(1);
  };
  /** It changes something behind the page's back, and undoes it. */
  const caughtUp = async (page: Page, key: string) => {
    await isLive(page);
    expect(await page.locator('.frame.stale').count()).toBe(0);
    await page.locator('main').getByText(`The key ${key} is held indefinitely`).waitFor();
    await replica.call('DELETE', `/v1/keys/${key}/hold`);
  };
  const hold = (key: string) => replica.call('PUT', `/v1/keys/${key}/hold`, { body: { reason: 'behind' } });

  async function visitNow(at: string): Promise<Page> {
    const page = await visit('#/now', { at });
    await isLive(page);
    await page.getByRole('button', { name: /^Show \d+ more$/ }).click();
    return page;
  }

  it('is lost when its replica is drained, and goes on with another one, signed in', async () => {
    const leaving = await startApp(database, API);
    proxy.switchTo(leaving.url);
    const page = await visitNow(proxy.url);
    await leaving.close();
    await isLost(page);
    await hold('while-drained');
    proxy.switchTo(replica.url);
    await caughtUp(page, 'while-drained');
  });

  it('is lost while the database is away, says so, and catches up', async () => {
    const toDatabase = await startTcpProxy(database.url, { remember: false });
    const away = await startApp({ ...database, url: toDatabase.url }, API);
    try {
      const page = await visitNow(`${away.url}/`);
      toDatabase.holdResponses();
      await isLost(page);
      expect(await page.getByRole('button', { name: /^lost/ }).getAttribute('title')).toMatch(/database/i);
      await hold('while-away');
      toDatabase.releaseResponses();
      await caughtUp(page, 'while-away');
    } finally {
      toDatabase.releaseResponses();
      await away.close();
      await toDatabase.close();
    }
  });

  it('is lost while nothing of the stream comes through, and then shows the last snapshot, not the old ones', async () => {
    const page = await visitNow(proxy.url);
    proxy.stall();
    await isLost(page);
    await hold('while-stalled');
    proxy.flow();
    await caughtUp(page, 'while-stalled');
  });
});
