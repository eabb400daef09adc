import { loadSettings, type Settings } from './config/settings.ts';
import type { ReadModel } from './contract/read-model.ts';
import { createLog, type Log } from './telemetry/logger.ts';
import { startTracing, type Tracing, tracingWanted } from './telemetry/tracing.ts';

type Environment = Readonly<Record<string, string | undefined>>;
type Load = () => Promise<readonly ReadModel[]>;

interface Start {
  readonly settings: Settings;
  readonly log: Log;
  readonly tracing: Tracing | undefined;
}

/** Tracing must start before the packages it traces are loaded, so read models and service are imported only after it. */
async function begin(environment: Environment): Promise<Start> {
  const settings = loadSettings(environment);
  const log = createLog(settings);
  const tracing = tracingWanted(environment) ? await startTracing(environment, log) : undefined;
  return { settings, log, tracing };
}

/** A replica within this process. */
export async function startReplica(environment: Environment, load: Load) {
  const { settings, log, tracing } = await begin(environment);
  try {
    const readModels = await load();
    const { startService } = await import('./service.ts');
    const service = await startService(settings, log, readModels);
    return { url: service.url, stop: () => service.stop().finally(() => tracing?.stop()) };
  } catch (error) {
    await tracing?.stop();
    throw error;
  }
}

/** A replica that is this process, until a stop signal ends it. */
export function serveProcess(environment: Environment, load: Load): Promise<never> {
  return untilDone(async () => {
    const { settings, log, tracing } = await begin(environment);
    try {
      const readModels = await load();
      const { serve } = await import('./serve.ts');
      await serve(settings, log, readModels);
    } finally {
      await tracing?.stop();
    }
  });
}

/** Run by a release before its replicas start with MIGRATIONS=off. */
export async function migrateDatabase(environment: Environment, load: Load): Promise<void> {
  const settings = loadSettings(environment);
  const { checkServer, DatabaseUnusableError } = await import('./database/server-check.ts');
  const { databaseUrl } = settings;
  if (!databaseUrl) {
    throw new DatabaseUnusableError(
      'DATABASE_URL is needed; the embedded PostgreSQL is migrated by "npm start"',
    );
  }
  const readModels = await load();
  const { prepareSchema } = await import('./prepare-schema.ts');
  const urls = settings.cells.length > 0 ? settings.cells.map(({ url }) => url) : [databaseUrl];
  for (const url of urls) {
    await checkServer(url, settings.databaseConnectTimeout);
    await prepareSchema(url, { ...settings, migrations: 'auto' }, createLog(settings), readModels);
  }
}

/** Ends the process with what `work` set as exit code; with 1 and one line on stderr if it failed. */
export function untilDone(work: () => Promise<void>): Promise<never> {
  return work().then(
    () => process.exit(),
    async (error) => {
      const { exitLine } = await import('./exit-line.ts');
      process.stderr.write(`${exitLine(error)}\n`);
      return process.exit(1);
    },
  );
}
