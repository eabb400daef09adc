import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Account, canEnter } from './account.ts';
import { makeMissingLinks } from './binaries-links.ts';

/**
 * Copies the package's binaries to `place`, executable by every user, once per version of the package. Returns null if
 * the copy cannot be made there or the account cannot reach it.
 */
export async function copyBinaries(
  packageRoot: string,
  place: string,
  account: Account,
): Promise<string | null> {
  try {
    await mkdir(place, { recursive: true });
    if (account !== null) await chmod(place, 0o755); // whatever root's umask is
    if (!(await canEnter(account, place))) return null;
    const copy = join(place, await nameOfCopy(packageRoot));
    if (!(await exists(copy))) await makeCopy(join(packageRoot, 'native'), place, copy);
    return copy;
  } catch {
    return null; // the place is read-only or full: the caller tries the next one
  }
}

async function nameOfCopy(packageRoot: string): Promise<string> {
  const { version } = JSON.parse(await readFile(join(packageRoot, 'package.json'), 'utf8'));
  return `postgres-${version}-${process.platform}-${process.arch}`;
}

/* The copy is renamed into place: one that exists is complete, even if two services make it at once. */
async function makeCopy(native: string, place: string, copy: string): Promise<void> {
  const halfMade = await mkdtemp(join(place, 'copying-'));
  try {
    await cp(native, halfMade, { recursive: true, verbatimSymlinks: true });
    await makeMissingLinks(halfMade);
    await openToAll(halfMade);
    await rename(halfMade, copy);
  } catch (error) {
    if (!(await exists(copy))) throw error;
  } finally {
    await rm(halfMade, { recursive: true, force: true });
  }
}

/* The project may have been installed with a umask that excludes other users. */
async function openToAll(directory: string): Promise<void> {
  await chmod(directory, 0o755);
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) await openToAll(path);
    else if (entry.isFile()) await chmod(path, (await stat(path)).mode & 0o100 ? 0o755 : 0o644);
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
