import { dirname } from 'node:path';
import type { ReadModel } from './contract/read-model.ts';

/*
 * The entry `sluice` of the package. It imports the service only when it starts, because tracing must be there before the
 * packages that it traces.
 */

export type { ReadModel } from './contract/read-model.ts';

type ReadModels = readonly ReadModel[];

export interface SluiceOptions {
  /** A function is called after tracing has started; needed only if the file that calls createSluice is to be traced. */
  readonly readModels: ReadModels | (() => ReadModels | Promise<ReadModels>);
  /** The settings of docs/settings.md by name. Default: the environment of the process. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
}

export interface RunningSluice {
  /** The URL it listens on. */
  readonly url: string;
  /** Drains, then stops the application and the embedded PostgreSQL, if there is one. */
  stop(): Promise<void>;
}

export interface Sluice {
  /** Starts a replica within this process, and returns when it listens. Signals are left to the caller. */
  start(): Promise<RunningSluice>;
  /**
   * What `sluice serve` does: starts, prints where, drains at the first stop signal, and ends the process; with exit code 1
   * and one line on stderr if it cannot start.
   */
  serve(): Promise<never>;
  /** Brings the schema of DATABASE_URL up to date. For releases whose replicas start with MIGRATIONS=off. */
  migrate(): Promise<void>;
}

/** The service with read models of your own. */
export function createSluice({ readModels, environment = process.env }: SluiceOptions): Sluice {
  const load = async (): Promise<ReadModels> => {
    const { checkOneCopy } = await import('./one-copy.ts');
    const { checkedReadModels } = await import('./read-model-list.ts');
    checkOneCopy(dirname(process.argv[1] ?? process.cwd()));
    return checkedReadModels(
      typeof readModels === 'function' ? await readModels() : readModels,
      'createSluice',
    );
  };
  return {
    async start() {
      const { startReplica } = await import('./start-replica.ts');
      return startReplica(environment, load);
    },
    async serve() {
      const { serveProcess } = await import('./start-replica.ts');
      return serveProcess(environment, load);
    },
    async migrate() {
      const { migrateDatabase } = await import('./start-replica.ts');
      await migrateDatabase(environment, load);
    },
  };
}
