import { readFileSync } from 'node:fs';

/** From package.json, which stands one folder up in the sources and two in the build. */
export const VERSION: string = readVersion();

function readVersion(): string {
  for (const path of ['../package.json', '../../package.json']) {
    try {
      return JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8')).version;
    } catch {
      // the other place
    }
  }
  return 'unknown';
}
