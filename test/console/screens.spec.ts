import { expect, it } from '@jest/globals';
import { READ_KEY } from '../support/app.ts';
import { describeInBrowser } from '../support/browser.ts';
import { clicksOn, sharedConsole } from '../support/console.ts';
import { writeCanaries } from '../support/console-canaries.ts';
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
  ['queue', '#/listener?name=search-index', 'in flight'],
  ['disabled-listener', '#/listener?name=legacy-erp', 'Nothing is sent'],
  ['topics', '#/topics', 'analytics'],
  ['topic', '#/topic?name=orders', 'order-'],
  ['group', '#/group?name=analytics', 'No members'],
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

/** Name → the screen, the button that opens it, and what follows in it. */
const DIALOGS: readonly [
  name: string,
  screen: string,
  button: string,
  then?: { press: string; text: string | RegExp },
][] = [
  ['discard', 'dead-letters', 'Discard all…'],
  ['revive', 'dead-letters', 'Revive all…'],
  ['new-listener', 'listeners', 'New listener…'],
  ['pause', 'listener?name=crm', 'Pause…'],
  ['edit', 'listener?name=crm', 'Edit…'],
  ['replay', 'listener?name=crm', 'Replay…'],
  ['rotate', 'listener?name=crm', 'Rotate secret…', { press: 'Rotate', text: 'The secret of crm' }],
  ['test', 'listener?name=crm', 'Test', { press: 'Again', text: /It responded 204/ }],
  ['seek', 'group?name=analytics', 'Seek…'],
  ['hold', 'holds', 'Hold a key…'],
  ['run-now', 'schedules', 'Run now…'],
  ['switch', 'read-model?name=recruitment', 'Switch…'],
  ['new-key', 'system', 'New key…'],
];

/** They show more, copy or filter. */
const HARMLESS = /^(Show|Copy|Load|All|Clear|Refresh)\b|^\d+$/;

const WIDTH = 'document.documentElement.scrollWidth';
/** How far a dialog is wider than the place that it has. */
const SIDEWAYS = `Math.max(...[...document.querySelectorAll('dialog, .dialog-body')].map((one) => one.scrollWidth - one.clientWidth))`;

describeInBrowser('E14 the console', () => {
  const { replica, visit } = sharedConsole();

  it.each(SCREENS)('shows %s with data, accessible in light and dark', async (name, hash, text) => {
    for (const scheme of ['light', 'dark'] as const) {
      const page = await visit(hash, { scheme });
      await page.getByText(text).first().waitFor();
      await page.getByRole('button', { name: 'live', exact: true }).waitFor();
      expect(await violationsOf(page)).toEqual([]);
      await screenshot(page, `${name}-${scheme}`);
    }
  });

  it.each(SCREENS)(
    'fits %s into 390 pixels, into 1280 at a zoom of 200 %%, and into what is between',
    async (name, hash, text) => {
      const page = await visit(hash, { width: 390 });
      await page.getByText(text).first().waitFor();
      expect(await page.evaluate(WIDTH)).toBeLessThanOrEqual(390);
      await screenshot(page, `${name}-narrow`);
      // Zoomed to 200 %, a page has half of the pixels of its window; the others are windows of tablets and small laptops.
      for (const width of [640, 820, 1000, 1180, 1280]) {
        await page.setViewportSize({ width, height: 400 });
        const needed = Math.max(width, Number(await page.evaluate(WIDTH)));
        expect([width, needed]).toEqual([width, width]);
      }
      await page.locator('main').getByText(text).first().scrollIntoViewIfNeeded();
    },
  );

  it.each(['light', 'dark'] as const)(
    'has accessible dialogs in %s, which give the focus back',
    async (scheme) => {
      const page = await visit('#/now', { scheme });
      const dialog = page.getByRole('dialog');
      const looksWell = async (name: string) => {
        await dialog.getByRole('heading').waitFor();
        expect(await violationsOf(page)).toEqual([]);
        await screenshot(page, `dialog-${name}-${scheme}`, false);
      };
      for (const [name, screen, button, then] of DIALOGS) {
        await page.evaluate(`location.hash = '#/${screen}'`);
        const opener = page.locator('main').getByRole('button', { name: button }).first();
        await opener.click();
        await looksWell(name);
        if (then) {
          await dialog.getByRole('button', { name: then.press, exact: true }).click();
          await dialog.getByText(then.text).waitFor();
          await looksWell(`${name}-done`);
        }
        await page.keyboard.press('Escape');
        await dialog.waitFor({ state: 'hidden' });
        expect([name, await opener.and(page.locator(':focus')).count()]).toEqual([name, 1]);
      }
      await page.keyboard.press('?');
      await looksWell('help');
    },
  );

  it('fits dialogs into a telephone', async () => {
    const page = await visit('#/now', { width: 390 });
    await page.setViewportSize({ width: 390, height: 640 });
    const dialog = page.getByRole('dialog');
    for (const [name, screen, button] of DIALOGS) {
      await page.evaluate(`location.hash = '#/${screen}'`);
      await page.locator('main').getByRole('button', { name: button }).first().click();
      await dialog.getByRole('heading').waitFor();
      const { x, y, width, height } = (await dialog.boundingBox())!;
      expect([name, x >= 0, y >= 0, x + width <= 390, y + height <= 640]).toEqual([
        name,
        true,
        true,
        true,
        true,
      ]);
      expect([name, await page.evaluate(SIDEWAYS)]).toEqual([name, 0]);
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'hidden' });
    }
  });

  it('shows a reader everything, and no button that acts', async () => {
    const page = await visit('#/now', { key: READ_KEY });
    const seen = new Set<string>();
    for (const [name, hash, text] of SCREENS) {
      await page.evaluate(`location.hash = '${hash}'`);
      await page.locator('main').getByText(text).first().waitFor();
      expect([name, await page.locator('[data-act]').count()]).toEqual([name, 0]);
      for (const button of await page.locator('main button').all())
        seen.add((await button.getAttribute('aria-label')) ?? (await button.innerText()));
    }
    // Not only those that are known to act: every button on these screens is harmless.
    expect([...seen].filter((button) => !HARMLESS.test(button))).toEqual([]);
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

  it('notices markup made from text, an inline style and a request to another host, so that none can slip in', async () => {
    const page = await visit('#/holds');
    await page.getByText('merging two accounts').waitFor();
    page.removeAllListeners('console');
    const seen: string[] = [];
    page.on('console', (message) => seen.push(message.text()));
    await page.evaluate(
      `document.querySelector('main').setAttribute('style', 'color: red');
       try { document.querySelector('h1').innerHTML = '<b>markup</b>'; } catch {}
       fetch('https://elsewhere.example/').catch(() => undefined);`,
    );
    for (const directive of ['style-src', 'require-trusted-types-for', 'connect-src'])
      await until(() => seen.some((text) => text.includes(`CSP violation: ${directive}`)));
  });

  it('shows what others wrote as text and runs none of it', async () => {
    await writeCanaries(replica);
    const page = await visit(`#/message?${new URLSearchParams({ id: CANARIES.path })}`);
    for (const text of [CANARIES.path, CANARIES.proto, CANARIES.script, CANARIES.url, CANARIES.reversed])
      await page.getByText(text).first().waitFor();
    await page.locator('.payload', { hasText: 'onerror=' }).waitFor();
    for (const [screen, query, text] of WRITTEN) {
      await page.evaluate(`location.hash = '#/${screen}?${new URLSearchParams(query)}'`);
      await page.locator('main').getByText(text).first().waitFor();
    }
    for (const hash of Object.values(CANARIES)) {
      await page.evaluate(`location.hash = ${JSON.stringify(`#/${hash}`)}`);
      await page.getByText('There is no such screen').waitFor();
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

/** Screen → what somebody else wrote that it shows. */
const WRITTEN: readonly [screen: string, query: Record<string, string>, text: string | RegExp][] = [
  ['listener', { name: 'partner' }, CANARIES.image],
  ['listener', { name: 'partner' }, /next=javascript:window\.canary/],
  ['listeners', {}, /next=javascript:window\.canary/],
  ['holds', {}, CANARIES.script],
  ['key', { key: CANARIES.path }, CANARIES.path],
  ['messages', { key: CANARIES.proto }, CANARIES.path],
  ['messages', { source: CANARIES.url }, 'foreign'],
  ['message', { id: 'foreign', source: CANARIES.url }, CANARIES.url],
  ['message', { id: CANARIES.image }, CANARIES.image],
  ['message', { id: 'order-3' }, `no such customer ${CANARIES.script}`],
  ['dead-letters', { stage: 'outbox', listener: 'search-index' }, CANARIES.script],
  ['group', { name: 'shipping' }, CANARIES.image],
  ['find', { q: CANARIES.path }, CANARIES.path],
  ['find', { q: CANARIES.script }, CANARIES.script],
  ['activity', { action: CANARIES.image }, 'Validation failed'],
  ['activity', {}, CANARIES.script],
  ['listener', { name: CANARIES.image }, CANARIES.image],
  ['topic', { name: CANARIES.script }, CANARIES.script],
  ['guide', { chapter: CANARIES.image }, 'Operating'],
];
