import 'reflect-metadata';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { insertFinished } from '../harness/finished-messages.mjs';
import { service } from '../harness/paths.mjs';
import { Progress } from '../harness/progress.mjs';
import { TYPE } from '../harness/workload.mjs';

const SICK = /^sick-/;

export async function setup({ url }) {
  const { migrate } = await service('database/migrate.js');
  const { schemaOf } = await service('schema.js');
  await migrate(url, await settings({}), schemaOf([]));
}

/** Finished messages, each with a pending delivery to every listener that is not idle: as the fan-out leaves them. */
export async function seed({ url, messages, listeners }) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'));
  const file = join(folder, 'listeners.yaml');
  const definitions = listeners.map(({ idle, ...definition }) => ({ types: [TYPE], ...definition }));
  writeFileSync(file, JSON.stringify({ listeners: definitions }));
  const app = await start(url, { ROLES: 'upkeep', LISTENERS_FILE: file });
  await app.close();
  rmSync(folder, { recursive: true });

  const pool = new pg.Pool({ connectionString: url, max: 1 });
  await insertFinished(pool, messages);
  const busy = listeners.filter(({ idle }) => !idle).map(({ name }) => name);
  await pool.query(
    `INSERT INTO outbox (listener, lane, message, key, sequence, bytes)
     SELECT listener.number, listener.number * 256 + inbox.lane % listener.lanes, inbox.position, inbox.key, 1,
            length(inbox.payload::text)
     FROM inbox CROSS JOIN listener WHERE listener.name = ANY ($1::text[]) ORDER BY inbox.position, listener.number`,
    [busy],
  );
  await pool.query('VACUUM ANALYZE');
  await pool.end();
}

/** Sends the pending deliveries; one counts when its result is stored, except those to failing listeners. */
export async function drain({ url, env = {}, complete = true, ...counts }) {
  const progress = new Progress(counts);
  const app = await start(url, { ROLES: 'outbox', DRAIN_TIMEOUT: '2s', ...env }, async (nest) => {
    const { DeliveryMetrics } = await service('outbox/health/delivery-metrics.js');
    const metrics = nest.get(DeliveryMetrics);
    const settled = metrics.settled.bind(metrics);
    metrics.settled = (tried) => {
      settled(tried);
      if (tried.outcome.kind === 'delivered' && !SICK.test(tried.listener.name)) progress.handled();
    };
  });
  const result = await progress.over();
  await Promise.race([app.close(), delay(complete ? 10_000 : 500)]);
  return result;
}

async function start(url, env, beforeSending = async () => undefined) {
  const { createApp } = await service('app.js');
  const { createLog } = await service('telemetry/logger.js');
  const log = createLog({ logLevel: 'fatal', logFormat: 'json' });
  const app = await createApp(url, await settings(env), log, []);
  await beforeSending(app.nest);
  return app;
}

async function settings(env) {
  const { loadSettings } = await service('config/settings.js');
  const always = { PORT: '0', HOST: '127.0.0.1', EGRESS_ALLOW: '127.0.0.0/8', SECRETS_KEYS: SECRETS };
  return loadSettings({ ...always, ...env });
}

/** Not a secret: the same for all processes of a run. */
const SECRETS = `bench=${Buffer.alloc(32, 7).toString('base64')}`;
