import { setTimeout as delay } from 'node:timers/promises';
import { startBrowser } from './browser.mjs';
import { LightClient } from './light-client.mjs';

/** Notes, by the browser's clock, when the picture of Now has its numbers, and when each change is in the document. */
const WATCH = `
window.seen = {};
new MutationObserver(() => {
  if (!window.firstView && document.querySelector('.flow .live-number')) window.firstView = performance.now();
  const text = document.querySelector('.attention')?.textContent ?? '';
  for (const [key] of text.matchAll(/change-\\d+-/g)) window.seen[key] ??= Date.now();
}).observe(document, { childList: true, subtree: true, characterData: true });`;

const MAX_WAIT_MS = 60_000;
const NODES = `document.querySelectorAll('*').length`;

/** Milliseconds from the navigation to the first view with data, each time in a browser context without a cache. */
export async function firstViews({ url, count }) {
  const browser = await startBrowser();
  const times = [];
  let nodes = 0;
  // The first one warms the service and the browser.
  for (let n = 0; n <= count; n++) {
    const { page, context } = await open(browser, url);
    const time = await seen(page, 'window.firstView');
    if (n > 0) times.push(time);
    nodes = await page.evaluate(NODES);
    await context.close();
  }
  await browser.close();
  return { times, nodes };
}

/** Milliseconds from a request that changes something, sent to each of `changedAt` in turn, to the text on a page of `url`. */
export async function changes({ url, changedAt, count }) {
  const browser = await startBrowser();
  const { page } = await open(browser, url);
  await seen(page, 'window.firstView');
  const times = changedAt.map(() => []);
  const clients = changedAt.map((at) => new LightClient(at));
  for (let n = 0; n < count * changedAt.length; n++) {
    const which = n % changedAt.length;
    const hold = `/v1/keys/change-${n}-/hold`;
    // At any time of the second in which the snapshots come.
    await delay(500 + 1_000 * Math.random());
    const startedAt = Date.now();
    await clients[which].call('PUT', hold, { reason: 'bench' });
    times[which].push((await seen(page, `window.seen['change-${n}-']`)) - startedAt);
    await clients[which].call('DELETE', hold);
  }
  for (const client of clients) client.close();
  await browser.close();
  return times;
}

async function open(browser, url) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  await context.addInitScript(WATCH);
  const page = await context.newPage();
  await page.goto(`${url}/console/#/now`);
  return { context, page };
}

/** The value of the expression, once there is one. The console's policy forbids what `waitForFunction` does. */
async function seen(page, expression) {
  for (const deadline = Date.now() + MAX_WAIT_MS; Date.now() < deadline; ) {
    const value = await page.evaluate(expression);
    if (value) return value;
    await delay(20);
  }
  throw new Error(`${expression} was not set`);
}
