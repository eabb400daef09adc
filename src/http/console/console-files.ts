import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join, relative, resolve, sep } from 'node:path';
import { Injectable, type OnModuleInit } from '@nestjs/common';
import { IMMUTABLE, PreparedFile } from '../prepared-file.ts';

/** Where `npm run build` puts the console: beside the built sources, which are in dist/src. */
const FOLDER = resolve(
  import.meta.dirname,
  import.meta.filename.endsWith('.ts') ? '../../../dist/console' : '../../../console',
);

const INDEX = 'index.html';

const TYPES = new Map([
  ['.css', 'text/css; charset=utf-8'],
  ['.js', 'text/javascript; charset=utf-8'],
  ['.json', 'application/json; charset=utf-8'],
  ['.map', 'application/json; charset=utf-8'],
  ['.svg', 'image/svg+xml'],
]);

/** No inline scripts or styles, no text that becomes markup, nothing loaded from other origins, nothing sent to them. */
const CONTENT_SECURITY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; " +
  "form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/** The files of the console, read once at start: a request can name no other file. */
@Injectable()
export class ConsoleFiles implements OnModuleInit {
  /** Undefined if the console has not been built. */
  index: PreparedFile | undefined;
  /** By name; a name contains a hash of the content. */
  assets: ReadonlyMap<string, PreparedFile> = new Map();

  onModuleInit(): Promise<void> {
    return this.load(FOLDER);
  }

  async load(folder: string): Promise<void> {
    const index = join(folder, INDEX);
    if (!existsSync(index)) return;
    this.index = await PreparedFile.of('text/html; charset=utf-8', readFileSync(index, 'utf8'), {
      'content-security-policy': CONTENT_SECURITY,
      'referrer-policy': 'same-origin',
    });
    const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
    const assets = names
      .filter((name) => TYPES.has(extname(name)))
      .map(async (name) => [assetName(name), await assetOf(join(folder, name))] as const);
    this.assets = new Map(await Promise.all(assets));
  }
}

function assetOf(path: string): Promise<PreparedFile> {
  return PreparedFile.of(TYPES.get(extname(path))!, readFileSync(path, 'utf8'), {
    'cache-control': IMMUTABLE,
  });
}

/** Relative to the folder `assets`, which the build may or may not have made. */
function assetName(path: string): string {
  return relative('assets', path).startsWith('..') ? path : relative('assets', path).split(sep).join('/');
}
