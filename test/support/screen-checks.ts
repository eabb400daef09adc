import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import axe from 'axe-core';
import type { Page } from 'playwright-core';

/** Where screenshots of every screen are written; nowhere unless it is set. */
const { SCREENSHOTS_DIR } = process.env;

/** What axe-core finds wrong on the page, or in the elements that `within` selects. */
export async function violationsOf(page: Page, within = ':root'): Promise<string[]> {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axe.source);
  const { violations } = (await page.evaluate(`axe.run('${within}', { resultTypes: ['violations'] })`)) as {
    violations: { id: string; nodes: { html: string; failureSummary: string }[] }[];
  };
  return violations.map(({ id, nodes }) => `${id}: ${nodes[0]!.html} ${nodes[0]!.failureSummary}`);
}

export async function screenshot(page: Page, name: string, fullPage = true): Promise<void> {
  if (!SCREENSHOTS_DIR) return;
  mkdirSync(SCREENSHOTS_DIR, { recursive: true });
  await page.screenshot({ path: join(SCREENSHOTS_DIR, `${name}.png`), fullPage });
}
