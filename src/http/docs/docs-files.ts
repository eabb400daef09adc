import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { IMMUTABLE, PreparedFile } from '../prepared-file.ts';
import type { ApiDocument } from './api-document.ts';
import { referencePage } from './page.ts';

const FOLDER = join(import.meta.dirname, 'assets');

const TYPES = new Map([
  ['.css', 'text/css; charset=utf-8'],
  ['.js', 'text/javascript; charset=utf-8'],
  ['.svg', 'image/svg+xml'],
]);

/** No inline scripts or styles, nothing loaded from other origins, nothing sent to them. */
const CONTENT_SECURITY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** The API reference and the document it is built from, ready to be sent. */
export interface DocsFiles {
  readonly document: PreparedFile;
  readonly page: PreparedFile;
  /** Keyed by `<version>/<name>`. The version is a folder because scripts import each other by relative name. */
  readonly assets: ReadonlyMap<string, PreparedFile>;
}

export async function prepareDocs(document: ApiDocument): Promise<DocsFiles> {
  const sources = readdirSync(FOLDER)
    .sort()
    .map((name) => [name, readFileSync(join(FOLDER, name), 'utf8')] as const);
  const version = createHash('sha256').update(JSON.stringify(sources)).digest('hex').slice(0, 12);
  const assets = sources.map(async ([name, content]) => {
    const type = TYPES.get(extname(name));
    if (!type) throw new Error(`no content type for ${name} of the API reference`);
    const file = await PreparedFile.of(type, content, { 'cache-control': IMMUTABLE });
    return [`${version}/${name}`, file] as const;
  });
  return {
    document: await PreparedFile.of('application/json; charset=utf-8', JSON.stringify(document)),
    page: await PreparedFile.of('text/html; charset=utf-8', referencePage(document, `docs/${version}`), {
      'content-security-policy': CONTENT_SECURITY,
    }),
    assets: new Map(await Promise.all(assets)),
  };
}
