import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

export const BENCH = fileURLToPath(new URL('..', import.meta.url));
export const ROOT = join(BENCH, '..');

/** The service's build; SLUICE_DIST names another one, to compare two versions. */
const DIST = process.env.SLUICE_DIST ?? join(ROOT, 'dist/src');

/** A module of the service as it is built. */
export function service(path) {
  return import(pathToFileURL(join(DIST, path)));
}
