import { access, readFile, symlink } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';

/**
 * npm packs no symbolic links. The package creates them in an install script, which npm 12 and `npm ci --ignore-scripts`
 * do not run, so they are created here. Returns false if a missing link cannot be created.
 */
export async function makeMissingLinks(native: string): Promise<boolean> {
  const listed = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  const links = JSON.parse(listed) as { source: string; target: string }[];
  const made = await Promise.all(links.map((link) => makeLink(native, link)));
  return made.every(Boolean);
}

/* "target" is the link and "source" what it points to, both relative to the package's root. */
async function makeLink(
  native: string,
  { source, target }: { source: string; target: string },
): Promise<boolean> {
  const link = join(native, relative('native', target));
  try {
    await symlink(relative(dirname(target), source), link);
    return true;
  } catch {
    return access(link).then(
      () => true, // it exists already
      () => false,
    );
  }
}
