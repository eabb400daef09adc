import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { settingsTable } from '../../src/config/settings-table.ts';

const README = readFileSync(resolve(import.meta.dirname, '../../README.md'), 'utf8');

describe('the README', () => {
  it('has the settings as the service reads them; npm run docs:settings writes them', () => {
    const [, written] = /<!-- settings -->\n([\s\S]*?)\n<!-- \/settings -->/.exec(README) ?? [];
    expect(written).toBe(settingsTable());
  });
});
