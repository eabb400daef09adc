import { expect } from '@jest/globals';
import type { Locator, Page } from 'playwright-core';
import { clicksOn } from './console.ts';

/** How somebody works with the console. */
export interface Hands {
  readonly name: string;
  readonly maxClicks: number;
  press(target: Locator): Promise<void>;
  fill(target: Locator, text: string): Promise<void>;
}

/** More than any screen of the tests has between the start and what is looked for. */
const MAX_TABS = 200;

export const MOUSE: Hands = {
  name: 'with at most three clicks from Now',
  maxClicks: 3,
  press: (target) => target.click(),
  fill: (target, text) => target.fill(text),
};

/** Everything is reached by Tab from where one is, as a person does it: nothing is focused by a script. */
export const KEYBOARD: Hands = {
  name: 'by keyboard alone',
  maxClicks: 0,
  press: async (target) => {
    await reach(target);
    await target.page().keyboard.press('Enter');
  },
  fill: async (target, text) => {
    await reach(target);
    await target.page().keyboard.type(text);
  },
};

async function reach(target: Locator): Promise<void> {
  await target.waitFor();
  const page = target.page();
  const focused = target.and(page.locator(':focus'));
  for (let tabs = 0; tabs < MAX_TABS; tabs += 1) {
    if ((await focused.count()) > 0) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`not reached with ${MAX_TABS} times Tab: ${target}`);
}

/** Does a task on a page that shows Now, and counts. */
export async function task(page: Page, hands: Hands, run: (page: Page) => Promise<void>): Promise<void> {
  await page.getByText('The life of a message').waitFor();
  await run(page);
  expect(await clicksOn(page)).toBeLessThanOrEqual(hands.maxClicks);
}
