import { expect, it } from '@jest/globals';
import { loadSettings } from './settings.ts';

const URLS = { home: 'postgres://sluice:pw@one/sluice', b: 'postgres://sluice:pw@two/sluice' };
const CELLS = `home=${URLS.home}, b=${URLS.b}`;

function refusal(environment: Record<string, string>): string {
  try {
    loadSettings(environment);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('was accepted');
}

it('reads the cells in order, and uses the first as the database', () => {
  const settings = loadSettings({ CELLS, CELL_WORKERS: 'b' });
  expect(settings.cells).toEqual([
    { name: 'home', url: URLS.home },
    { name: 'b', url: URLS.b },
  ]);
  expect(settings).toMatchObject({ databaseUrl: URLS.home, cellWorkers: ['b'] });
});

it('splits between entries, not within a URL of several hosts', () => {
  const url = 'postgres://sluice@one,two:5433/sluice';
  expect(loadSettings({ CELLS: `a=${url},b=${URLS.b}` }).cells.map(({ url }) => url)).toEqual([url, URLS.b]);
});

it.each([
  [`home=${URLS.home},home=${URLS.b}`, 'two entries have the name home'],
  [`home=${URLS.home},b=${URLS.home}`, 'b has the URL of another entry'],
  [`home=${URLS.home},b=mysql://x`, 'entry 2 (b) has no valid URL'],
  [URLS.home, 'entry 1 does not begin with <name>='],
])('refuses %s without quoting a password', (value, reason) => {
  const message = refusal({ CELLS: value });
  expect(message).toContain(reason);
  expect(message).not.toContain('pw');
});

it('refuses settings that contradict CELLS', () => {
  expect(refusal({ CELLS, CELL_WORKERS: 'c' })).toContain('CELL_WORKERS names c, which is not in CELLS');
  expect(refusal({ CELLS, DATABASE_URL: URLS.b })).toContain('DATABASE_URL and CELLS are both set');
  expect(refusal({ CELLS, DATABASE_POOLER: 'transaction' })).toContain('does not work with CELLS');
  expect(refusal({ CELL_WORKERS: 'b' })).toContain('is not in CELLS');
});
