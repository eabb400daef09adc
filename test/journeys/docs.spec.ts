import { readdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { PROBLEMS } from '../../src/http/problems.ts';
import { type HttpBytes, httpBytes } from '../support/http-bytes.ts';
import { sharedReplica } from '../support/shared-replica.ts';

const ASSETS = resolve(import.meta.dirname, '../../src/http/docs/assets');
const TYPES: Record<string, string> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
  json: 'application/json; charset=utf-8',
};

interface Operation {
  operationId: string;
  summary: string;
  'x-scope'?: string;
}

const { replica } = sharedReplica();
let page: string;
let document: { paths: Record<string, Record<string, Operation>> };

beforeAll(async () => {
  page = (await get('/docs')).body.toString();
  document = JSON.parse((await get('/openapi.json')).body.toString());
});

describe('the API reference', () => {
  it('has every operation of the document, with its path, summary, scope and its own link', () => {
    const shown = page.split('<details class="operation">').slice(1).map(operationOf);
    const described = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({
        line: `${method.toUpperCase()} ${path} ${operation.summary.replaceAll('`', '')}`,
        scope: operation['x-scope'],
        id: operation.operationId,
      })),
    );
    expect(described.length).toBeGreaterThan(40);
    expect(shown.sort(byId)).toEqual(described.sort(byId));
  });

  it('has every problem of the catalogue, and no broken link', () => {
    const ids = [...page.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id!);
    const links = [...page.matchAll(/href="#([^"]+)"/g)].map(([, id]) => id!);

    for (const name of Object.keys(PROBLEMS)) expect(ids).toContain(`problem-${name}`);
    expect(links.filter((link) => !ids.includes(link))).toEqual([]);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('shows parameters, a body with an example, and responses', () => {
    const post = textOf(page.slice(page.indexOf('id="MessagesController_post"')));
    expect(post).toContain('Idempotency-Key header string Used as the id if the message has none');
    expect(post).toContain('type string, 1 to 200 characters required');
    expect(post).toContain('"payload": { "candidateId": "c-1" }');
    expect(post).toMatch(/409 The id is taken by a message with other content\. conflict message-dead/);

    const one = textOf(page.slice(page.indexOf('id="CandidatesController_one"')));
    expect(one).toContain('409 message-dead : the message will not be applied. message-dead 503');
  });

  it('works below a prefix: every URL is relative, and leads to an existing file', async () => {
    const urls = [...page.matchAll(/(?:src|href|action)="([^"#][^"]*)"/g)].map(([, url]) => url!);
    expect(urls.length).toBeGreaterThanOrEqual(4);
    for (const url of urls) {
      const { pathname } = new URL(url, 'http://proxy.example/x/y/docs');
      expect(pathname).toMatch(/^\/x\/y\//);
      const file = await get(pathname.slice('/x/y'.length));
      const extension = url.slice(url.lastIndexOf('.') + 1);
      expect([url, file.status, file.headers['content-type']]).toEqual([url, 200, TYPES[extension]]);
    }
  });

  it('is at /docs, and /docs/ redirects there, below any prefix', async () => {
    const moved = await get('/docs/?x=1');
    expect([moved.status, moved.headers.location]).toEqual([308, '../docs']);
  });

  it('runs, loads, styles and sends only its own files', async () => {
    const policy = (await get('/docs')).headers['content-security-policy'];
    expect(policy).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    expect(inlineParts(page)).toEqual([]);
  });

  it('is checked by a test that detects inline code', () => {
    for (const part of [
      '<script>x</script>',
      '<style>',
      '<p style="x">',
      '<p onclick="x">',
      '<a href="javascript:x">',
    ]) {
      expect(inlineParts(part)).toHaveLength(1);
    }
  });

  it('turns no input into markup', () => {
    for (const name of readdirSync(ASSETS).filter((file) => file.endsWith('.js'))) {
      const script = readFileSync(resolve(ASSETS, name), 'utf8');
      expect(script).not.toMatch(
        /innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\b|new Function/,
      );
      expect(script).not.toMatch(/localStorage|sessionStorage|indexedDB|document\.cookie/);
    }
  });

  it('has less than 60 KB with all its files', async () => {
    const paths = ['/docs', ...(await assetPaths())];
    const files = await Promise.all(paths.map((path) => get(path, { 'accept-encoding': 'gzip' })));
    const bytes = files.reduce((sum, { body }) => sum + body.length, 0);
    expect(files.length).toBe(1 + readdirSync(ASSETS).length);
    expect(bytes).toBeGreaterThan(5_000);
    expect(bytes).toBeLessThan(60_000);
  });
});

describe('a file of the API reference', () => {
  it('is the same in every encoding, for GET and HEAD, and is not sent twice', async () => {
    for (const path of ['/docs', '/openapi.json', ...(await assetPaths())]) {
      const plain = await get(path);
      expect([path, plain.status, plain.headers['content-encoding']]).toEqual([path, 200, undefined]);
      for (const [encoding, decode] of [
        ['br', brotliDecompressSync],
        ['gzip', gunzipSync],
      ] as const) {
        const headers = { 'accept-encoding': encoding };
        const packed = await get(path, headers);
        expect([path, packed.headers['content-encoding'], packed.headers.vary]).toEqual([
          path,
          encoding,
          'accept-encoding',
        ]);
        expect(decode(packed.body).equals(plain.body)).toBe(true);
        expect(packed.headers['content-length']).toBe(String(packed.body.length));

        const again = await get(path, { ...headers, 'if-none-match': packed.headers.etag! });
        expect([path, again.status, again.body.length]).toEqual([path, 304, 0]);
        const head = await httpBytes(replica.url + path, headers, 'HEAD');
        expect([path, head.status, head.body.length]).toEqual([path, 200, 0]);
        expect(head.headers['content-length']).toBe(packed.headers['content-length']);
      }
    }
  });

  it('is revalidated, unless its URL contains its hash', async () => {
    expect((await get('/docs')).headers['cache-control']).toBe('no-cache');
    expect((await get('/openapi.json')).headers['cache-control']).toBe('no-cache');
    for (const path of await assetPaths()) {
      expect([path, (await get(path)).headers['cache-control']]).toEqual([
        path,
        'public, max-age=31536000, immutable',
      ]);
    }
  });

  it.each([
    '/docs/index.html',
    '/docs/package.json',
    '/docs/..%2fpackage.json',
    '/docs/%2e%2e%2f%2e%2e%2fpackage.json',
    '/docs/VERSION/..%2fdocs-files.ts',
    '/docs/VERSION/%2e%2e%2f%2e%2e%2fopenapi.ts',
    '/docs/VERSION/nothing.js',
    '/docs/VERSION/constructor',
    '/docs/000000000000/reference.js',
    '/docs/__proto__/toString',
  ])('is one of those built at start, and no other: %s', async (path) => {
    const version = /docs\/(\w+)\/reference\.js/.exec(page)![1]!;
    const response = await get(path.replace('VERSION', version));
    expect([response.status, response.headers['content-type']]).toEqual([404, 'application/problem+json']);
    expect(JSON.parse(response.body.toString()).type).toBe('urn:sluice:problems/not-found');
  });
});

function get(path: string, headers: Record<string, string> = {}): Promise<HttpBytes> {
  return httpBytes(replica.url + path, headers);
}

/** The files that a browser loads for the page: those that it names, and the imports of its scripts. */
async function assetPaths(): Promise<string[]> {
  const named = [...page.matchAll(/(?:src|href)="(docs\/[^"]+)"/g)].map(([, path]) => `/${path}`);
  const scripts = named.filter((path) => path.endsWith('.js'));
  const imported = await Promise.all(
    scripts.map(async (path) => {
      const source = (await get(path)).body.toString();
      return [...source.matchAll(/from '\.\/([\w.-]+)'/g)].map(([, name]) => path.replace(/[^/]+$/, name!));
    }),
  );
  return [...new Set([...named, ...imported.flat()])];
}

function operationOf(part: string): { line: string; scope: string | undefined; id: string | undefined } {
  const summary = /<summary>(.*?)<\/summary>/s.exec(part)![1]!;
  const scope = /<span class="scope">(.*?)<\/span>/.exec(summary)?.[1];
  const line = textOf(summary.replace(/<span class="scope">.*?<\/span>/, ''), '').trim();
  return { line, scope, id: /id="([^"]+)"/.exec(part)?.[1] };
}

function byId(one: { id?: string | undefined }, other: { id?: string | undefined }): number {
  return one.id! < other.id! ? -1 : 1;
}

function inlineParts(text: string): string[] {
  return text.match(/<script(?![^>]*\ssrc=)|<style|\sstyle=|<[^>]*\son\w+=|javascript:/gi) ?? [];
}

function textOf(markup: string, between = ' '): string {
  return markup
    .replaceAll(/<[^>]+>/g, between)
    .replaceAll(/&#(\d+);/g, (_match, code) => String.fromCharCode(Number(code)))
    .replaceAll(/\s+/g, ' ');
}
