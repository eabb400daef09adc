import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { describe } from '@jest/globals';
import { type Browser, chromium } from 'playwright-core';
import { reportSkipped } from './report-skipped.ts';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'chrome'];

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

const installed = (process.env.PATH ?? '')
  .split(delimiter)
  .flatMap((folder) => NAMES.map((name) => join(folder, name)))
  .find((path) => existsSync(path));

/** `describe` where there is a Chromium; elsewhere it reports what is not tested, or fails if BROWSER_TESTS=required. */
export function describeInBrowser(promise: string, tests: () => void): void {
  if (!installed && process.env.BROWSER_TESTS === 'required')
    throw new Error(`BROWSER_TESTS=required, but none of ${NAMES.join(', ')} is in PATH`);
  if (!installed) reportSkipped(promise, 'no Chromium in PATH');
  (installed ? describe : describe.skip)(promise, tests);
}

export function startBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: installed!, args: FLAGS });
}
