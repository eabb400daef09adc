import { execFile } from 'node:child_process';
import { chown, lchown, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import type { Layout } from './layout.ts';

/** The user that runs PostgreSQL's programs; null means the user of this process. */
export type Account = { uid: number; gid: number } | null;

const ACCOUNTS_FOR_ROOT = ['postgres', 'nobody'];

/**
 * PostgreSQL refuses to run as root, so root runs it as another user: the owner of existing data (a service that is
 * started sometimes by a plain user and sometimes by root works for both), else `postgres`, else `nobody`.
 */
export async function chooseAccount(layout: Layout): Promise<Account> {
  const ourUid = process.getuid?.();
  const data = await stat(layout.data).catch(() => null);
  if (ourUid !== 0) {
    if (data !== null && ourUid !== undefined && data.uid !== ourUid)
      throw foreignData(layout, data.uid, ourUid);
    return null;
  }
  if (data !== null && data.uid !== 0) return { uid: data.uid, gid: data.gid };
  return accountForRoot();
}

/** Data that root created or copied here (such as a restored backup) is given to the account that runs PostgreSQL. */
export async function ownData(account: Account, data: string): Promise<void> {
  if (account !== null && (await stat(data)).uid !== account.uid) await giveTo(account, data);
}

/** Changes the owner of a folder and its content; the folder itself last, so that an interrupted run is repeated. */
export async function giveTo(account: Account, path: string): Promise<void> {
  if (account === null) return;
  for (const entry of await readdir(path, { withFileTypes: true })) {
    const inner = join(path, entry.name);
    if (entry.isDirectory()) await giveTo(account, inner);
    else await lchown(inner, account.uid, account.gid);
  }
  await chown(path, account.uid, account.gid);
}

/** Tries it instead of reading file modes: ACLs and mounts count, too. */
export async function canEnter(account: Account, directory: string): Promise<boolean> {
  if (account === null) return true;
  try {
    await promisify(execFile)('/bin/sh', ['-c', 'cd "$1"', 'sh', directory], { cwd: '/', ...account });
    return true;
  } catch {
    return false;
  }
}

async function accountForRoot(): Promise<Account> {
  for (const name of ACCOUNTS_FOR_ROOT) {
    try {
      const [uid, gid] = await Promise.all([idOf('-u', name), idOf('-g', name)]);
      return { uid, gid };
    } catch {
      // No such user on this machine.
    }
  }
  throw new EmbeddedPostgresError(
    `PostgreSQL does not run as root and this machine has no user ${ACCOUNTS_FOR_ROOT.join(' or ')}: ` +
      'start the service as another user, or set DATABASE_URL.',
  );
}

async function idOf(flag: '-u' | '-g', name: string): Promise<number> {
  const { stdout } = await promisify(execFile)('id', [flag, name]);
  return Number(stdout) | 0; // macOS shows nobody's -2 as 4294967294, which spawn refuses
}

function foreignData(layout: Layout, owner: number, ours: number): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    `The data in ${layout.data} belongs to uid ${owner}, this process runs as uid ${ours}: start it as that user ` +
      `or as root, or take the data over with "sudo chown -R ${ours} ${layout.root}", or set DATABASE_URL.`,
  );
}
