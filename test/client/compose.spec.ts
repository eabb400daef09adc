import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { type BuiltService, build, ROOT, run } from '../support/built-service.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/until.ts';

interface Service {
  readonly command: string[];
  readonly environment: Record<string, string>;
}

const { services }: { services: Record<string, Service> } = parse(
  readFileSync(join(ROOT, 'docker-compose.yml'), 'utf8'),
  { merge: true },
);

let database: TestDatabase;
let replicas: BuiltService[];
const processes: ChildProcess[] = [];

beforeAll(async () => {
  build();
  database = await createDatabase();
  const settings = environmentOf('sluice-1');
  replicas = ['sluice-1', 'sluice-2'].map(() =>
    run({
      ...settings,
      HOST: '127.0.0.1',
      DATABASE_URL: database.url,
      LISTENERS_FILE: join(ROOT, 'deploy/compose/listeners.yaml'),
      LOG_LEVEL: 'error',
    }),
  );
});
afterAll(async () => {
  for (const child of processes) child.kill('SIGKILL');
  for (const replica of replicas) {
    replica.kill();
    await replica.exit();
  }
  await database.drop();
});

describe('the commands of the compose file, as processes', () => {
  it('B13 send messages from the producer to the consumer, over two replicas', async () => {
    const urls = await Promise.all(replicas.map((replica) => replica.url()));
    const SLUICE_URLS = urls.join(' ');
    const consumer = start('consumer', { SLUICE_URLS });
    const producer = start('producer', { SLUICE_URLS, COUNT: '12', INTERVAL_MS: '1' });
    expect(await producer.ended).toEqual([0, null]);
    const sent = idsIn(producer.lines, 'accepted');
    expect(sent).toHaveLength(12);
    await until(() => idsIn(consumer.lines, 'handled').length >= 12);
    expect(idsIn(consumer.lines, 'handled').sort()).toEqual(sent.toSorted());

    const again = start('producer', { SLUICE_URLS, COUNT: '1' });
    expect(await again.ended).toEqual([0, null]);
    await until(() => idsIn(consumer.lines, 'handled').length === 13);
    expect(await database.query('SELECT last::int FROM producer')).toEqual([{ last: 12 }]);

    consumer.child.kill('SIGTERM');
    expect(await consumer.ended).toEqual([0, null]);
  });

  it('B13 stop on SIGTERM, as a container is stopped', async () => {
    const urls = await Promise.all(replicas.map((replica) => replica.url()));
    for (const name of ['producer', 'consumer']) {
      const one = start(name, { SLUICE_URLS: urls.join(' ') });
      await until(() => one.lines.length > 0);
      one.child.kill('SIGTERM');
      expect([name, await one.ended]).toEqual([name, [0, null]]);
    }
  });
});

function start(name: string, settings: Record<string, string>) {
  const [command, ...args] = services[name]!.command;
  const child = spawn(command!, args, {
    cwd: ROOT,
    env: { PATH: process.env.PATH, ...environmentOf(name), ...settings },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  processes.push(child);
  const lines: string[] = [];
  createInterface({ input: child.stdout! }).on('line', (line) => lines.push(line));
  return { child, lines, ended: once(child, 'close') };
}

/** With the default of every variable. */
function environmentOf(name: string): Record<string, string> {
  const entries = Object.entries(services[name]!.environment);
  return Object.fromEntries(entries.map(([key, text]) => [key, text.replace(/\$\{\w+:-([^}]*)\}/g, '$1')]));
}

function idsIn(lines: readonly string[], what: string): string[] {
  return lines.flatMap((line) => new RegExp(` ${what} .*\\bid=(\\S+)`).exec(line)?.[1] ?? []);
}
