import { open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import { processIdentity } from './process-table.ts';

const CLAIM = /^owner-(\d+)-(.+)$/;
const ATTEMPTS = 5;

/**
 * Makes this process the only owner of the data folder, so that a second service refuses to start instead of taking the
 * first one's server for an orphan and stopping it. Returns a function that releases the folder.
 *
 * Each process writes a claim file of its own (`owner-<pid>-<start>`) and then reads those of others. Of two that
 * start at once, at least one sees the other. The claim of a dead process can be deleted without a race, because no other
 * process ever uses its name. A common lock file has neither property: two processes that both find it stale can each
 * delete what the other just wrote. This works among processes that see each other's pids (one machine, one container).
 */
export async function claimOwnership(dataDirectory: string): Promise<() => Promise<void>> {
  const mine = `owner-${process.pid}-${await processIdentity(process.pid)}`;
  const release = () => rm(join(dataDirectory, mine), { force: true });
  for (let attempt = 1; ; attempt++) {
    await writeClaim(dataDirectory, mine);
    const rival = await liveRival(dataDirectory, mine);
    if (rival === null) return release;
    await release();
    if (attempt === ATTEMPTS) throw inUse(dataDirectory, `process ${rival}`);
    await delay(20 + Math.random() * 100); // two that saw each other both withdraw; the random delay lets one retry first
  }
}

async function writeClaim(dataDirectory: string, claim: string): Promise<void> {
  try {
    await (await open(join(dataDirectory, claim), 'wx', 0o600)).close();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    throw inUse(dataDirectory, `this process, ${process.pid}`);
  }
}

async function liveRival(dataDirectory: string, mine: string): Promise<number | null> {
  for (const name of await readdir(dataDirectory)) {
    const [, pid, identity] = CLAIM.exec(name) ?? [];
    if (pid === undefined || name === mine) continue;
    if ((await processIdentity(Number(pid))) === identity) return Number(pid);
    await rm(join(dataDirectory, name), { force: true });
  }
  return null;
}

function inUse(dataDirectory: string, owner: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    `The embedded PostgreSQL in ${dataDirectory} is in use by a running service (${owner}): ` +
      'stop that one first, or give this one a database of its own with DATABASE_URL.',
  );
}
