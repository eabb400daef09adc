import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { describeInBrowser } from '../support/browser.ts';
import { sharedConsole } from '../support/console.ts';
import { EXACT_ID } from '../support/console-data.ts';
import { type PrefixProxy, startPrefixProxy } from '../support/prefix-proxy.ts';

describeInBrowser('E14 the dialogs of the console', () => {
  const { replica, visit } = sharedConsole();
  let proxy: PrefixProxy;

  beforeAll(async () => {
    proxy = await startPrefixProxy(replica.url, '/x/y/');
  });
  afterAll(() => proxy?.close());

  it('give way to the screen that a link in them leads to', async () => {
    const page = await visit('#/dead-letters?stage=inbox');
    await page.getByRole('button', { name: 'Revive what matches…' }).click();
    await page.getByRole('button', { name: /^Revive \d+$/ }).click();
    await page.getByRole('dialog').getByRole('link', { name: 'All revives and replays' }).click();
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    await page.getByRole('heading', { name: 'Activity' }).waitFor();
  });

  it('have the focus where one types first, also when the form is longer than the window', async () => {
    const page = await visit('#/listeners');
    await page.setViewportSize({ width: 1280, height: 500 });
    await page.getByRole('button', { name: 'New listener…' }).click();
    await page.keyboard.type('typed-at-once');
    expect(await page.getByRole('dialog').getByLabel('Name').inputValue()).toBe('typed-at-once');
    await page.keyboard.press('Escape');
    await page.evaluate(`location.hash = '#/dead-letters'`);
    await page.getByRole('button', { name: 'Discard all…' }).click();
    await page.getByLabel('Reason').and(page.locator(':focus')).waitFor();
    await page.keyboard.press('Escape');
  });

  it('show a new secret over the screen of the listener that was made', async () => {
    const page = await visit('#/listeners');
    await page.getByRole('button', { name: 'New listener…' }).click();
    await page.getByRole('dialog').getByLabel('Name').fill('made-here');
    await page.getByRole('dialog').getByLabel('URL').fill('https://example.com/hook');
    await page
      .getByRole('dialog')
      .getByLabel(/^Types/)
      .fill('urn:none:*');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog', { name: 'The secret of made-here' }).waitFor();
    await page.getByText('made-here', { exact: true }).first().waitFor();
    // The screen behind it is there, and the secret, which is shown only once, stays.
    expect(await page.evaluate('location.hash')).toBe('#/listener?name=made-here');
    await page.locator('h1', { hasText: 'made-here' }).waitFor({ state: 'attached' });
    expect(await page.getByRole('dialog', { name: 'The secret of made-here' }).isVisible()).toBe(true);
  });

  it('wait for the dry run of a replay and of a seek', async () => {
    const page = await visit('#/listener?name=crm', { at: proxy.url });
    proxy.refuse('/v1/listeners/crm/replay', 503);
    await page.getByRole('button', { name: 'Replay…' }).click();
    const start = page.getByRole('button', { name: 'Start the replay' });
    await start.waitFor();
    expect(await start.isDisabled()).toBe(true);
    await page.getByText(/Something between here and the service failed/).waitFor();
    expect(await start.isDisabled()).toBe(true);
    proxy.refuse('/v1/listeners/crm/replay', 0);
    await page.getByLabel('Only dead letters').check();
    await page.getByLabel('Only dead letters').uncheck();
    await page.getByText(/deliver(y|ies) would be sent/).waitFor();
    expect(await start.isEnabled()).toBe(true);
    await page.keyboard.press('Escape');

    await page.evaluate(`location.hash = '#/group?name=analytics'`);
    proxy.refuse('/v1/groups/analytics/seek', 503);
    await page.getByRole('button', { name: 'Seek…' }).click();
    const seek = page.getByRole('button', { name: 'Seek', exact: true });
    expect(await seek.isDisabled()).toBe(true);
    await page.getByText(/Something between here and the service failed/).waitFor();
    expect(await seek.isDisabled()).toBe(true);
    proxy.refuse('/v1/groups/analytics/seek', 0);
    await page.getByRole('dialog').getByLabel('To').selectOption('latest');
    await page.getByText(/would be read again/).waitFor();
    expect(await seek.isEnabled()).toBe(true);
  });

  it('are offered where a message waits for a listener that is paused, instead of a request', async () => {
    const page = await visit('#/message?id=order-0');
    const why = page.getByRole('region', { name: 'Why' });
    await why.getByRole('link', { name: 'partner' }).waitFor();
    expect(await why.textContent()).not.toMatch(/POST|\/v1\/|\dT\d\d:/);
    await why.getByRole('button', { name: 'Resume…' }).click();
    await page.getByRole('dialog', { name: 'Resume partner' }).waitFor();
    await page.keyboard.press('Escape');

    await page.evaluate(`location.hash = '#/message?id=reminder-1'`);
    await why.getByText('It is due at').waitFor();
    expect(await why.textContent()).not.toMatch(/\dT\d\d:/);
  });

  it('say why something could not be copied', async () => {
    const page = await visit(`#/message?id=${EXACT_ID}`, { at: proxy.url });
    await page.locator('.payload').waitFor();
    proxy.refuse(`/v1/messages/${EXACT_ID}/payload`, 502);
    for (const button of ['Copy as curl', 'Copy']) {
      await page.getByRole('button', { name: button, exact: true }).click();
      await page
        .getByRole('dialog')
        .getByText(/Something between here and the service failed/)
        .waitFor();
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'hidden' });
    }
  });
});
