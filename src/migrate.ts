import 'reflect-metadata';
import { loadSettings } from './config/settings.ts';
import { checkServer, DatabaseUnusableError } from './database/server-check.ts';
import { exitLine } from './exit-line.ts';
import { prepareSchema } from './service.ts';
import { createLog } from './telemetry/logger.ts';

/** `npm run migrate`: run by a release before its replicas start with MIGRATIONS=off. */
async function main(): Promise<void> {
  const settings = loadSettings(process.env);
  if (!settings.databaseUrl) {
    throw new DatabaseUnusableError(
      'DATABASE_URL is needed; the embedded PostgreSQL is migrated by "npm start"',
    );
  }
  await checkServer(settings.databaseUrl, settings.databaseConnectTimeout);
  await prepareSchema(settings.databaseUrl, { ...settings, migrations: 'auto' }, createLog(settings));
}

main().then(
  () => process.exit(),
  (error) => {
    process.stderr.write(`${exitLine(error)}\n`);
    process.exit(1);
  },
);
