import { readFileSync } from 'node:fs';

/** From package.json, which is one folder up from the sources and two from the build. */
export const VERSION: string = readVersion();

function readVersion(): string {
  for (const path of ['../package.json', '../../package.json']) {
    try {
      return JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8')).version;
    } catch {
      // Try the other path.
    }
  }
  return 'unknown';
}
