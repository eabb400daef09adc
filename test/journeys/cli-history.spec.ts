import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it } from '@jest/globals';
import { startCli } from '../support/run-cli.ts';
import { sharedReplica } from '../support/shared-replica.ts';

const { database, replica } = sharedReplica({ ROLES: 'api', HISTORY: 'urn:kept/*=forever' });
const folder = mkdtempSync(join(tmpdir(), 'sluice-history-'));
afterAll(() => rmSync(folder, { recursive: true }));
beforeEach(() => database.query('TRUNCATE inbox, archive_block, archive_id'));

const sluice = (given: string[], input?: string) => startCli(replica.url, ['history', ...given], input).ended;
const path = (name: string) => join(folder, name);
const line = (n: number) =>
  `{"id":"m-${n}","type":"urn:kept/a","key":"k-${n % 40}","payload":{"n":${n}.0}}\n`;
const file = (name: string, lines: readonly string[]) => {
  writeFileSync(path(name), lines.join(''));
  return path(name);
};
const some = Array.from({ length: 2_300 }, (_, n) => line(n));
const count = async () =>
  Number((await database.query<{ n: string }>('SELECT count(*) AS n FROM archive_id'))[0]!.n);

describe('sluice history', () => {
  it('imports a file, exports it, and continues an export that broke off', async () => {
    const imported = await sluice(['import', file('all.ndjson', some)]);
    expect(imported).toMatchObject({ code: 0, out: '2300 messages imported, 0 were there already\n' });
    expect(imported.aside).toContain('2300 lines checked');
    expect((await sluice(['import', path('all.ndjson')])).out).toContain('2300 were there already');

    expect(await sluice(['export', path('out.ndjson')])).toMatchObject({ code: 0 });
    const whole = readFileSync(path('out.ndjson'), 'utf8');
    expect(whole.split('\n')).toHaveLength(2_301);
    expect(whole).toContain('"payload":{"n":17.0}');
    writeFileSync(path('out.ndjson'), whole.slice(0, whole.length / 2));
    expect(await sluice(['export', path('out.ndjson'), '--resume'])).toMatchObject({ code: 0 });
    expect(readFileSync(path('out.ndjson'), 'utf8')).toBe(whole);

    expect((await sluice(['export', '--type', 'urn:kept/a'])).out).toBe(whole);
    expect((await sluice(['export', '--type', 'urn:other'])).out).toBe('');
    expect(await sluice(['export', path('out.ndjson')])).toMatchObject({ code: 2 });
    expect((await sluice(['status'])).out).toMatch(
      /^2300 messages in \d+ blocks.*urn:kept\/\* +forever +the beginning/s,
    );
  });

  it('finds a bad line before it imports anything', async () => {
    const bad = [...some.slice(0, 2_100), '{"id":"x","type":"urn:kept/a"}\n', ...some.slice(2_100)];
    const refused = await sluice(['import', file('bad.ndjson', bad)]);
    expect(refused.code).toBe(1);
    expect(refused.aside).toContain('Line 2101: /payload is required. Nothing was imported.');
    expect(await count()).toBe(0);
  });

  it('says where to continue when only a part could be imported', async () => {
    const bad = [...some.slice(0, 1_500), '[]\n', ...some.slice(1_500)].join('');
    const refused = await sluice(['import', '-'], bad);
    expect(refused).toMatchObject({
      code: 1,
      aside: expect.stringContaining('Line 1501: must be an object'),
    });
    expect(refused.aside).toContain('The lines before 1001 are imported; continue with --from-line 1001');
    expect(await count()).toBe(1_000);
    const rest = await sluice(['import', file('good.ndjson', some), '--from-line', '1001']);
    expect(rest.out).toBe('1300 messages imported, 0 were there already\n');
  });

  it('names no line to continue with when nothing was imported', async () => {
    const refused = await sluice(['import', '-'], `[]\n${some[0]}`);
    expect(refused).toMatchObject({ code: 1, aside: expect.stringContaining('Line 1: must be an object') });
    expect(refused.aside).not.toContain('--from-line');
  });

  it('erases a key, with a reason', async () => {
    await sluice(['import', file('few.ndjson', some.slice(0, 80))]);
    expect(await sluice(['erase', 'k-3'])).toMatchObject({ code: 2 });
    expect((await sluice(['erase', 'k-3', '--reason', 'asked'])).out).toBe('2 messages erased\n');
    expect(await count()).toBe(78);
  });

  it.each([
    [['import']],
    [['erase']],
    [['export', '--resume']],
    [['import', 'x', 'y']],
    [['import', '/nowhere']],
    [['import', 'x', '--from-line', '0']],
  ])('refuses %j', async (given) => {
    expect((await sluice(given)).code).toBe(2);
  });
});
