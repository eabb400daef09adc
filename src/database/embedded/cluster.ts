import { join } from 'node:path';
import { type Account, canEnter, chooseAccount } from './account.ts';
import { type Binaries, locatePackage, usableBinaries } from './binaries.ts';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import type { Layout } from './layout.ts';

/** A data folder, and how to run PostgreSQL's programs on it. */
export interface Cluster {
  layout: Layout;
  account: Account;
  binaries: Binaries;
  /** May the account reach the data folder by its path? */
  reachable: boolean;
}

/** Finds who is to run PostgreSQL on this folder, and binaries that this user can run. */
export async function clusterOn(layout: Layout): Promise<Cluster> {
  const account = await chooseAccount(layout);
  const binaries = await usableBinaries(account, locatePackage(), copyPlaces(layout, account));
  const reachable = await canEnter(account, layout.root);
  if (!reachable && process.platform !== 'linux') {
    throw new EmbeddedPostgresError(
      `PostgreSQL does not run as root, and uid ${account?.uid} cannot reach ${layout.root}: ` +
        'start the service as another user, move the project, or set DATABASE_URL.',
    );
  }
  return { layout, account, binaries, reachable };
}

/* /var/cache is root's and everyone may read it; a folder with a known name in /tmp could be another's. */
function copyPlaces(layout: Layout, account: Account): string[] {
  return [join(layout.root, 'binaries'), ...(account === null ? [] : ['/var/cache/sluice'])];
}

/**
 * How to name a data directory to a program whose working directory it is.
 *
 * As root with the project in, say, /root (mode 0700), the account that runs PostgreSQL may not walk down
 * to the data, and PostgreSQL changes into it by name. Node changes into `cwd` while it is still root, and
 * Linux resolves /proc/self/cwd without a walk from the top, so the server runs where it is: no other
 * folder's mode is changed, and the data does not move out of the project. Tried with initdb, the
 * single-user mode, the server, its backends, a reload and extensions.
 */
export function dataArgument(cluster: Cluster, directory: string): string {
  return cluster.reachable ? directory : '/proc/self/cwd';
}
