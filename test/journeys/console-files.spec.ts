import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ConsoleFiles } from '../../src/http/console/console-files.ts';
import { sharedReplica } from '../support/shared-replica.ts';

const SCRIPT = `console.log(${JSON.stringify('x'.repeat(2_000))})`;
const { replica } = sharedReplica({ ROLES: 'api' });
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-console-'));
  mkdirSync(join(folder, 'assets'));
  writeFileSync(join(folder, 'index.html'), '<!doctype html><title>Sluice</title>');
  writeFileSync(join(folder, 'assets', 'main-1a2b.js'), SCRIPT);
  writeFileSync(join(folder, 'assets', 'main-1a2b.js.br'), 'not for anyone');
  writeFileSync(join(folder, 'style-3c4d.css'), 'body { color: red }');
  writeFileSync(join(folder, 'secret.txt'), 'not for anyone');
  await replica.app.nest.get(ConsoleFiles).load(folder);
});
afterAll(() => rmSync(folder, { recursive: true }));

function get(path: string, headers: Record<string, string> = {}) {
  return fetch(replica.url + path, { headers, redirect: 'manual' });
}

describe('the console', () => {
  it('is served to everyone, with a policy that allows nothing inline and nothing foreign', async () => {
    const page = await get('/console/');
    expect([page.status, await page.text()]).toEqual([200, '<!doctype html><title>Sluice</title>']);
    expect(page.headers.get('content-security-policy')).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    );
    expect(page.headers.get('cache-control')).toBe('no-cache');
    expect(page.headers.get('x-content-type-options')).toBe('nosniff');
    const again = await get('/console/', { 'if-none-match': page.headers.get('etag')! });
    expect(again.status).toBe(304);
  });

  it('has files that are compressed and cached for ever', async () => {
    const script = await get('/console/assets/main-1a2b.js', { 'accept-encoding': 'br' });
    expect([script.status, await script.text()]).toEqual([200, SCRIPT]);
    expect(Object.fromEntries(script.headers)).toMatchObject({
      'content-type': 'text/javascript; charset=utf-8',
      'content-encoding': 'br',
      'cache-control': 'public, max-age=31536000, immutable',
    });
    const style = await get('/console/assets/style-3c4d.css');
    expect([style.status, style.headers.get('content-type')]).toEqual([200, 'text/css; charset=utf-8']);
  });

  it('serves no other file', async () => {
    const paths = ['main-1a2b.js.br', 'secret.txt', 'index.html', '..%2Fsecret.txt', '%2e%2e%2findex.html'];
    for (const path of paths)
      expect([path, (await get(`/console/assets/${path}`)).status]).toEqual([path, 404]);
  });

  it('is found from / by a browser, and from /console, below any path of a proxy', async () => {
    const root = await get('/', { accept: 'text/html,application/xhtml+xml;q=0.9' });
    expect([root.status, root.headers.get('location')]).toEqual([302, 'console/']);
    const bare = await get('/console');
    expect([bare.status, bare.headers.get('location')]).toEqual([308, 'console/']);
    for (const accept of ['*/*', 'application/json']) {
      const program = await get('/', { accept });
      expect([program.status, program.headers.get('content-type')]).toEqual([
        404,
        'application/problem+json',
      ]);
    }
  });

  it('says what to do when it has not been built', async () => {
    const files = replica.app.nest.get(ConsoleFiles);
    const { index } = files;
    files.index = undefined;
    const page = await get('/console/');
    files.index = index;
    expect([page.status, ((await page.json()) as { detail: string }).detail]).toEqual([
      404,
      expect.stringContaining('npm run build'),
    ]);
  });
});
