import { loadSettings } from './config/settings.ts';
import { createLog } from './telemetry/logger.ts';
import { startTracing, tracingWanted } from './telemetry/tracing.ts';

/** Tracing must start before the packages it traces are loaded, so the service is imported only after it. */
async function main(): Promise<void> {
  const settings = loadSettings(process.env);
  const log = createLog(settings);
  const tracing = tracingWanted(process.env) ? await startTracing(process.env, log) : undefined;
  try {
    const { serve } = await import('./serve.ts');
    await serve(settings, log);
  } finally {
    await tracing?.stop();
  }
}

main().then(
  () => process.exit(),
  async (error) => {
    const { exitLine } = await import('./exit-line.ts');
    process.stderr.write(`${exitLine(error)}\n`);
    process.exit(1);
  },
);
