import { existsSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

interface PackageFile {
  readonly version: string;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional: boolean }>>;
  readonly devDependencies: Readonly<Record<string, string>>;
}

const file = packageFile();

/** package.json of the service. */
export const PACKAGE: PackageFile = JSON.parse(readFileSync(file, 'utf8'));
/** The folder that package.json is in. */
export const PACKAGE_FOLDER = dirname(fileURLToPath(file));
export const VERSION = PACKAGE.version;

/** package.json is one folder up from the sources and two from the build. */
function packageFile(): URL {
  const candidates = ['../package.json', '../../package.json'].map((path) => new URL(path, import.meta.url));
  return candidates.find((candidate) => existsSync(candidate))!;
}
