import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

export const BENCH = fileURLToPath(new URL('..', import.meta.url));
export const ROOT = join(BENCH, '..');

/** The build of the service; SLUICE_DIST selects another one, to compare two versions. */
const DIST = process.env.SLUICE_DIST ?? join(ROOT, 'dist/src');

/** A module of the built service. */
export function service(path) {
  return import(pathToFileURL(join(DIST, path)));
}
