import 'reflect-metadata';
import { createApp } from '../../src/app.ts';
import { startWatchdog } from '../../src/clock/watchdog.ts';
import { loadSettings } from '../../src/config/settings.ts';
import { createLog } from '../../src/telemetry/logger.ts';

/** A replica that does not listen, for settings that the environment does not allow and for read models of a test. */
const { REPLICA_DATABASE: url = '', REPLICA_SETTINGS = '{}', REPLICA_OVERRIDES = '{}' } = process.env;
const { REPLICA_READ_MODEL } = process.env;
const allowed = loadSettings({ LOG_LEVEL: 'warn', LOG_FORMAT: 'json', ...JSON.parse(REPLICA_SETTINGS) });
const settings = { ...allowed, ...JSON.parse(REPLICA_OVERRIDES) };

const readModels = REPLICA_READ_MODEL ? [(await import(REPLICA_READ_MODEL)).readModel] : [];
startWatchdog(settings.watchdogTimeout);
const app = await createApp(url, settings, createLog(settings), readModels);
process.once('SIGTERM', () => void app.close().then(() => process.exit(0)));
process.stdout.write('ready\n');
