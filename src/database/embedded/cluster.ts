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
  /** Whether the account can reach the data folder by its path. */
  reachable: boolean;
}

/** Chooses the account that runs PostgreSQL on this folder, and binaries that this account can run. */
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

/* /var/cache belongs to root and is readable by all; a folder with a known name in /tmp could belong to another user. */
function copyPlaces(layout: Layout, account: Account): string[] {
  return [join(layout.root, 'binaries'), ...(account === null ? [] : ['/var/cache/sluice'])];
}

/**
 * The `-D` argument for a program that is started with the data directory as its working directory.
 *
 * As root with the project in a folder such as /root (mode 0700), the account that runs PostgreSQL cannot reach the data
 * by its path, and PostgreSQL changes into it by its path. Node changes into `cwd` while it is still root, and Linux
 * resolves /proc/self/cwd without walking the path, so the server runs in place: no folder's mode is changed, and the
 * data does not leave the project. Tried with initdb, the single-user mode, the server, its backends, a reload and
 * extensions.
 */
export function dataArgument(cluster: Cluster, directory: string): string {
  return cluster.reachable ? directory : '/proc/self/cwd';
}
