import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Account } from './account.ts';
import { copyBinaries } from './binaries-copy.ts';
import { makeMissingLinks } from './binaries-links.ts';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import { asAccount, runProgram } from './run-program.ts';

/** PostgreSQL's programs, tested with the account that will run them. */
export interface Binaries {
  postgres: string;
  initdb: string;
  major: number;
}

type Attempt = { ok: true; binaries: Binaries } | { ok: false; reason: string };

/** The npm package with PostgreSQL for this platform; an optional dependency, so it may be missing. */
export function locatePackage(platform: string = process.platform, arch: string = process.arch): string {
  const name = `@embedded-postgres/${platform === 'win32' ? 'windows' : platform}-${arch}`;
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name))); // …/dist/index.js
  } catch (cause) {
    throw new EmbeddedPostgresError(
      `There is no embedded PostgreSQL for ${platform} ${arch} (npm package ${name} is not installed): ` +
        'run "npm ci" without --omit=optional, or set DATABASE_URL to a PostgreSQL of your own.',
      { cause },
    );
  }
}

/**
 * Binaries that run: those of the package, else a copy in the first usable one of `copyPlaces`. A copy is needed when the
 * account cannot reach the project folder, or when the package is read-only and lacks its links.
 */
export async function usableBinaries(
  account: Account,
  packageRoot: string,
  copyPlaces: string[],
): Promise<Binaries> {
  const inPlace = await useInPlace(account, join(packageRoot, 'native'));
  if (inPlace.ok) return inPlace.binaries;
  for (const place of copyPlaces) {
    const copy = await copyBinaries(packageRoot, place, account);
    const attempt = copy === null ? null : await tryOut(account, copy);
    if (attempt?.ok) return attempt.binaries;
  }
  throw new EmbeddedPostgresError(
    `The embedded PostgreSQL in ${packageRoot} does not run on this machine (${inPlace.reason}), nor does ` +
      `a copy in ${copyPlaces.join(' or ')}: set DATABASE_URL to a PostgreSQL of your own.`,
  );
}

async function useInPlace(account: Account, native: string): Promise<Attempt> {
  if (await makeMissingLinks(native)) return tryOut(account, native);
  return { ok: false, reason: 'the package is read-only and lacks the links its install script makes' };
}

/* Checked by running it: that covers the path, file modes, mount options, the C library and the links. */
async function tryOut(account: Account, native: string): Promise<Attempt> {
  const suffix = process.platform === 'win32' ? '.exe' : '';
  const postgres = join(native, 'bin', `postgres${suffix}`);
  const initdb = join(native, 'bin', `initdb${suffix}`);
  const shown = await runProgram(postgres, ['--version'], asAccount(account, '/'));
  if (!shown.ok) return shown;
  const major = Number(/PostgreSQL\) (\d+)/.exec(shown.output)?.[1]);
  return { ok: true, binaries: { postgres, initdb, major } };
}
