import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { settingsTable } from '../../src/config/settings-table.ts';
import { ROOT } from '../support/built-service.ts';

describe('docs/settings.md', () => {
  it('has the settings as the service reads them; npm run docs:settings writes them', () => {
    const page = readFileSync(join(ROOT, 'docs/settings.md'), 'utf8');
    const [, written] = /<!-- settings -->\n\n([\s\S]*?)\n\n<!-- \/settings -->/.exec(page) ?? [];
    expect(written).toBe(settingsTable());
  });
});
