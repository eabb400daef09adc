import { access, constants, mkdir, readdir, readFile, realpath } from 'node:fs/promises';
import { resolve } from 'node:path';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import { type Layout, layoutOf } from './layout.ts';

/** Creates the data folder if necessary, and checks that it is writable. */
export async function prepareDataDirectory(path: string): Promise<Layout> {
  const directory = resolve(path);
  try {
    await mkdir(directory, { recursive: true });
    await access(directory, constants.R_OK | constants.W_OK | constants.X_OK);
    return layoutOf(await realpath(directory));
  } catch (error) {
    throw unusable(directory, error);
  }
}

/** Whether there is data already. Refuses files that are not PostgreSQL data, and data of another major version. */
export async function holdsData(layout: Layout, major: number): Promise<boolean> {
  const version = await readFile(`${layout.data}/PG_VERSION`, 'utf8').catch(ifAbsent(null));
  if (version === null) {
    const otherFiles = await readdir(layout.data).catch(ifAbsent([]));
    if (otherFiles.length > 0) throw notPostgres(layout);
    return false;
  }
  if (version.trim() !== String(major)) throw otherMajor(layout, version.trim(), major);
  return true;
}

/** A file system error about the data folder as one line with the next step. */
export function unusable(directory: string, error: unknown): EmbeddedPostgresError {
  const { code, message } = error as NodeJS.ErrnoException;
  const readOnly = code === 'EACCES' || code === 'EPERM' || code === 'EROFS';
  const user = process.getuid ? ` for uid ${process.getuid()}` : '';
  return new EmbeddedPostgresError(
    readOnly
      ? `No permission${user} to write the data folder ${directory} (${message}): ` +
          'make it writable for that user (chown -R), or set DATABASE_URL.'
      : `The data folder ${directory} cannot be used (${message}): fix the cause, or set DATABASE_URL.`,
    { cause: error },
  );
}

function ifAbsent<T>(value: T): (error: NodeJS.ErrnoException) => T {
  return (error) => {
    if (error.code === 'ENOENT') return value;
    throw error;
  };
}

function notPostgres(layout: Layout): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    `${layout.data} holds files but no PostgreSQL data (PG_VERSION is missing): ` +
      'move that folder away to start with an empty database, or set DATABASE_URL.',
  );
}

function otherMajor(layout: Layout, theirs: string, ours: number): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    `The data in ${layout.data} was created by PostgreSQL ${theirs}, the embedded version is ${ours}: ` +
      `dump it with PostgreSQL ${theirs} (pg_dump) and move that folder away, ` +
      `or run it with PostgreSQL ${theirs} yourself and set DATABASE_URL. Nothing was changed.`,
  );
}
