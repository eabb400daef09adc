import { expect, it } from '@jest/globals';
import { describeInBrowser } from '../support/browser.ts';
import { clicksOn, sharedConsole } from '../support/console.ts';
import { CANARIES, DEAD_ID, EXACT_ID, EXACT_PAYLOAD, HELD_KEY, WAITING_ID } from '../support/console-data.ts';
import { screenshot, violationsOf } from '../support/screen-checks.ts';
import { until } from '../support/until.ts';

/** Screen → its hash and a text that is there once its data are. */
const SCREENS: readonly [name: string, hash: string, text: string | RegExp][] = [
  ['now', '#/now', 'The life of a message'],
  ['messages', '#/messages', 'order-59'],
  ['message', '#/message?id=order-3', 'Applied to the read models'],
  ['waiting-message', `#/message?id=${WAITING_ID}`, 'Why does it wait?'],
  ['dead-message', `#/message?id=${DEAD_ID}`, 'Why is it dead?'],
  ['find', '#/find?q=customer', /Nothing has this id|Found/],
  ['listeners', '#/listeners', 'search-index'],
  ['listener', '#/listener?name=billing', 'kept per key'],
  ['disabled-listener', '#/listener?name=legacy-erp', 'Nothing is sent since'],
  ['topics', '#/topics', 'analytics'],
  ['topic', '#/topic?name=orders', 'order-'],
  ['group', '#/group?name=analytics', 'Nobody reads'],
  ['dead-letters', '#/dead-letters', 'responded 422'],
  ['holds', '#/holds', 'merging two accounts'],
  ['key', `#/key?key=${HELD_KEY}`, WAITING_ID],
  ['schedules', '#/schedules', 'every 10 minutes'],
  ['read-models', '#/read-models', 'recruitment'],
  ['read-model', '#/read-model?name=recruitment', 'Rows that differ'],
  ['activity', '#/activity', 'listener.pause'],
  ['system', '#/system', 'Versions'],
  ['guide', '#/guide?chapter=dead-letters', 'Dead letters of a group'],
];

describeInBrowser('E14 the console', () => {
  const { visit } = sharedConsole();

  it.each(SCREENS)('shows %s with data, accessible in light and dark', async (name, hash, text) => {
    for (const scheme of ['light', 'dark'] as const) {
      const page = await visit(hash, { scheme });
      await page.getByText(text).first().waitFor();
      await page.getByRole('button', { name: 'live', exact: true }).waitFor();
      expect(await violationsOf(page)).toEqual([]);
      await screenshot(page, `${name}-${scheme}`);
    }
  });

  it.each(SCREENS)('fits %s into 390 pixels', async (name, hash, text) => {
    const page = await visit(hash, { width: 390 });
    await page.getByText(text).first().waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
    await screenshot(page, `${name}-narrow`);
  });

  it('has accessible dialogs, which give the focus back', async () => {
    const page = await visit('#/dead-letters');
    for (const [screen, button] of [
      ['dead-letters', 'Discard all…'],
      ['listener?name=crm', 'Pause…'],
      ['listener?name=crm', 'Edit…'],
      ['listener?name=crm', 'Replay…'],
      ['group?name=analytics', 'Seek…'],
      ['holds', 'Hold a key…'],
      ['read-model?name=recruitment', 'Switch…'],
      ['system', 'New key…'],
    ] as const) {
      await page.evaluate(`location.hash = '#/${screen}'`);
      const opener = page.getByRole('button', { name: button });
      await opener.click();
      await page.getByRole('dialog').getByRole('heading').waitFor();
      expect(await violationsOf(page)).toEqual([]);
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'hidden' });
      expect(await opener.and(page.locator(':focus')).count()).toBe(1);
    }
  });

  it('has no inaccessible sign-in page', async () => {
    const page = await visit('', { key: null });
    await page.getByLabel('API key').waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await screenshot(page, 'sign-in-light');
  });

  it('finds a missing label, so that the checks above mean something', async () => {
    const page = await visit('#/holds');
    await page.getByText('merging two accounts').waitFor();
    await page.evaluate('document.querySelector("main").append(document.createElement("input"))');
    expect(await violationsOf(page)).toEqual([expect.stringMatching(/^label: /)]);
  });

  it('notices markup made from text and an inline style, so that none can slip in', async () => {
    const page = await visit('#/holds');
    await page.getByText('merging two accounts').waitFor();
    page.removeAllListeners('console');
    const seen: string[] = [];
    page.on('console', (message) => seen.push(message.text()));
    await page.evaluate(
      `document.querySelector('main').setAttribute('style', 'color: red');
       try { document.querySelector('h1').innerHTML = '<b>markup</b>'; } catch {}`,
    );
    for (const directive of ['style-src', 'require-trusted-types-for'])
      await until(() => seen.some((text) => text.includes(`CSP violation: ${directive}`)));
  });

  it('shows what others wrote as text and runs none of it', async () => {
    const page = await visit(`#/message?${new URLSearchParams({ id: CANARIES.path })}`);
    for (const text of [CANARIES.path, CANARIES.proto, CANARIES.script, CANARIES.url, CANARIES.reversed])
      await page.getByText(text).first().waitFor();
    await page.locator('.payload', { hasText: 'onerror=' }).waitFor();
    for (const [hash, text] of [
      ['#/listener?name=partner', CANARIES.image],
      ['#/holds', CANARIES.script],
      [`#/key?${new URLSearchParams({ key: CANARIES.path })}`, CANARIES.path],
      [`#/messages?${new URLSearchParams({ key: CANARIES.proto })}`, CANARIES.path],
      [`#/message?${new URLSearchParams({ id: CANARIES.image })}`, CANARIES.image],
    ] as const) {
      await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
      await page.getByText(text).first().waitFor();
    }
    expect(await page.evaluate('window.canary')).toBeUndefined();
    expect(await page.locator('a[href^="javascript:"]').count()).toBe(0);
  });

  it('shows the payload as exactly the text that was posted', async () => {
    const page = await visit(`#/message?id=${EXACT_ID}`);
    const payload = page.locator('.payload');
    await payload.waitFor();
    expect(await payload.textContent()).toBe(EXACT_PAYLOAD);
  });

  it('goes by keyboard: g and a letter, j and k, slash, question mark', async () => {
    const page = await visit('#/now');
    await page.getByText('The life of a message').waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('h');
    await page.getByRole('heading', { name: 'Holds' }).waitFor();
    await page.getByText('merging two accounts').waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('k');
    const first = page.locator('tbody tr').first().getByRole('link');
    expect(await first.and(page.locator(':focus')).count()).toBe(1);
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('/');
    await page.keyboard.type(WAITING_ID);
    await page.keyboard.press('Enter');
    await page.getByText('Why does it wait?').waitFor();
    expect(await clicksOn(page)).toBe(0);
  });

  it('keeps the animation still for those who asked for less motion', async () => {
    const page = await visit('#/now');
    await page.emulateMedia({ reducedMotion: 'reduce' });
    await page.getByText('The life of a message').waitFor();
    await page.locator('.pipe').first().waitFor({ state: 'attached' });
    const name = await page.evaluate(
      '(document.querySelector(".arrow").classList.add("moving"), getComputedStyle(document.querySelector(".pipe")).animationName)',
    );
    expect(name).toBe('none');
  });
});
