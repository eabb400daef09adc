import { afterAll, afterEach, beforeAll, expect } from '@jest/globals';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import type { ReadModel } from '../../src/contract/read-model.ts';
import { ADMIN_KEY, type TestApp } from './app.ts';
import { startBrowser } from './browser.ts';
import { build } from './built-service.ts';
import { type Call, CONSOLE_SETTINGS, type ConsoleData, feedConsole } from './console-data.ts';
import { feedRebuild } from './console-rebuild.ts';
import type { TestDatabase } from './database.ts';
import { sharedReplica } from './shared-replica.ts';

export interface Visit {
  /** Null: nobody is signed in. */
  readonly key?: string | null;
  readonly width?: number;
  readonly scheme?: 'light' | 'dark';
  /** Where the service is reached; default: directly. With a slash at the end. */
  readonly at?: string;
  /** Run in the page before its own scripts. */
  readonly script?: string;
}

interface SharedConsole {
  readonly replica: TestApp;
  readonly database: TestDatabase;
  readonly data: ConsoleData;
  /** Opens a screen by its hash in a browser context of its own. */
  visit(hash: string, options?: Visit): Promise<Page>;
}

/** Read in the page: a CSP violation, wherever it comes from. */
const WATCH = `addEventListener('securitypolicyviolation', (event) => {
  console.error('CSP violation: ' + event.violatedDirective + ' ' + event.blockedURI + ' ' + event.sample);
});
addEventListener('click', (event) => { if (event.isTrusted && event.detail > 0) window.clicks = (window.clicks || 0) + 1; }, true);`;

/**
 * One service with data and one browser for all tests of a file; a context for each test. A test fails on an error of the page,
 * on a violation of its content security policy, and on a request to another origin.
 */
export function sharedConsole(
  environment: Record<string, string> = {},
  readModels?: readonly ReadModel[],
): SharedConsole {
  // Before the replica: it reads the files of the console when it starts.
  beforeAll(() => build(), 300_000);
  const settings = { ...CONSOLE_SETTINGS, ENVIRONMENT: 'test', ...environment };
  const { replica, database } = sharedReplica(settings, readModels);
  const data = {} as ConsoleData;
  let browser: Browser;
  let contexts: BrowserContext[] = [];
  let troubles: string[] = [];

  beforeAll(async () => {
    browser = await startBrowser();
    const call: Call = async (method, path, body) => (await replica.call(method, path, { body })).body;
    Object.assign(data, await feedConsole(call));
    await feedRebuild(call, database);
  }, 120_000);
  afterEach(async () => {
    for (const context of contexts) await context.close();
    contexts = [];
    const seen = troubles;
    troubles = [];
    expect(seen).toEqual([]);
  });
  afterAll(async () => {
    await browser?.close();
    await data.close?.();
  });

  async function visit(
    hash: string,
    { key = ADMIN_KEY, width = 1280, scheme = 'light', at, script = '' }: Visit = {},
  ) {
    const base = at ?? `${replica.url}/`;
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme });
    contexts.push(context);
    await context.addInitScript(`${WATCH}
${script}`);
    if (key) {
      const signedIn = await context.request.post(`${base}v1/session`, { data: { key } });
      expect(signedIn.status()).toBe(200);
    }
    const page = await context.newPage();
    page.on('pageerror', (error) => troubles.push(`page error: ${error.stack}`));
    page.on('console', (message) => {
      // A refused or broken request is shown to the operator; the tests look at that.
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
        troubles.push(message.text());
    });
    page.on('request', (request) => {
      if (!request.url().startsWith(base)) troubles.push(`foreign request: ${request.url()}`);
    });
    await page.goto(`${base}console/${hash}`);
    return page;
  }

  return { replica, database, data, visit };
}

/** Clicks with the mouse since the page was opened. */
export function clicksOn(page: Page): Promise<number> {
  return page.evaluate('window.clicks || 0');
}
