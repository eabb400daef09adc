import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { isPostgresOn, processIdentity } from '../../src/database/embedded/process-table.ts';
import { type BuiltService, build, ROOT, type RunOptions, run } from '../support/built-service.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { reportSkipped } from '../support/report-skipped.ts';
import { until } from '../support/until.ts';

const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;

let room: string;
let database: TestDatabase;
let empty: TestDatabase;
const services: BuiltService[] = [];

beforeAll(async () => {
  build();
  room = mkdtempSync(join(tmpdir(), 'sluice-start-'));
  chmodSync(room, 0o755);
  [database, empty] = await Promise.all([createDatabase(), createDatabase({ empty: true })]);
});
afterEach(async () => {
  for (const service of services.splice(0)) {
    service.kill();
    await service.exit();
  }
});
afterAll(async () => {
  for (const data of ['data', 'npm']) await stopOrphan(join(room, data));
  await Promise.all([database.drop(), empty.drop()]);
  rmSync(room, { recursive: true, force: true, maxRetries: 5 });
});

describe('a start that fails', () => {
  it('names the invalid setting, its value and what is allowed', async () => {
    expect(await refusal({ PORT: 'http', LOGLEVEL: 'debug' })).toBe(
      'sluice: LOGLEVEL is not a setting; did you mean LOG_LEVEL?\n' +
        'PORT=http is not allowed; allowed: whole number, 0 to 65535\n',
    );
  });

  it('names the port that is taken and the next step', async () => {
    const squatter = createServer().listen(0, '127.0.0.1');
    await once(squatter, 'listening');
    const { port } = squatter.address() as AddressInfo;

    expect(await refusal({ PORT: String(port), DATABASE_URL: database.url })).toBe(
      `sluice: port ${port} on 127.0.0.1 is in use; stop the process that listens there or set PORT\n`,
    );
    squatter.close();
  });

  it('names an address that is not of this machine', async () => {
    const settings = { HOST: '192.0.2.1', API_KEYS: 'a=read:sk_a_12345678', DATABASE_URL: database.url };
    expect(await refusal(settings)).toBe('sluice: HOST 192.0.2.1 is not an address of this machine\n');
  });

  it('names the database that cannot be reached, without its password', async () => {
    const line = await refusal({ DATABASE_URL: 'postgres://someone:canary@127.0.0.1:1/d' });
    expect(line).toMatch(
      /^sluice: cannot reach PostgreSQL at 127\.0\.0\.1:1 \(.*\); check DATABASE_URL.*\n$/,
    );
    expect(line).not.toContain('canary');
  });

  it('names what the schema lacks when it may not migrate', async () => {
    const line = await refusal({ DATABASE_URL: empty.url, MIGRATIONS: 'off' });
    expect(line).toMatch(
      /^sluice: these migrations have not run: ApiKeys\d+, .*; run "npm run migrate" first\n$/,
    );
  });

  it('names the migration that failed and was rolled back, and succeeds once the cause is fixed', async () => {
    await empty.query('CREATE TABLE inbox (not_ours text)');
    const line = await refusal({ DATABASE_URL: empty.url });
    expect(line).toMatch(
      /^sluice: migration Inbox\d+ failed and was rolled back \(.*"inbox" already exists\); .*\n$/,
    );
    await empty.query('DROP TABLE inbox');

    const service = started({ DATABASE_URL: empty.url });
    expect((await fetch(`${await service.url()}/readyz`)).status).toBe(200);
  });

  it('names the data of another major version, and does not change it', async () => {
    const data = join(room, 'old/postgres');
    mkdirSync(data, { recursive: true });
    writeFileSync(join(data, 'PG_VERSION'), '15\n');

    const line = await refusal({ DATA_DIRECTORY: join(room, 'old') });
    expect(line).toMatch(
      /^sluice: The data in .*\/old\/postgres was created by PostgreSQL 15, the embedded version is 18: dump it .*\n$/,
    );
    expect(readdirSync(data)).toEqual(['PG_VERSION']);
  });

  it('names the folder that cannot be written', async () => {
    const locked = join(room, 'locked');
    mkdirSync(locked, { mode: 0o555 });
    if (isRoot && !canReachUs(NOBODY))
      return reportSkipped(
        'names the folder that cannot be written',
        'others than root cannot read this clone',
      );

    const line = await refusal({ DATA_DIRECTORY: join(locked, 'data') }, isRoot ? { uid: NOBODY } : {});
    expect(line).toMatch(
      /^sluice: No permission for uid \d+ to write the data folder .*\/locked\/data .*set DATABASE_URL\.\n$/,
    );
  });

  it('names the missing database of `npm run migrate`', async () => {
    const line = await refusal({}, { program: 'dist/src/migrate.js' });
    expect(line).toBe('sluice: DATABASE_URL is needed; the embedded PostgreSQL is migrated by "npm start"\n');
  });
});

describe('a running service', () => {
  it('prints its address, what it uses and what to try', async () => {
    const service = started({ DATABASE_URL: database.url });
    const url = await service.url();
    await service.line(/curl -i/);

    expect(service.output()).toContain(`${url}/docs`);
    expect(service.output()).toMatch(/database\s+PostgreSQL \d+.*, [\w.]+:\d+\/sluice_test_/);
    expect(service.output()).toMatch(/access\s+OPEN: no API key needed; loopback only/);
    expect(service.output()).not.toContain(new URL(database.url).password || 'no password');
  });

  it('completes the requests in flight when it is stopped, and exits with 0', async () => {
    const service = started({ DATABASE_URL: database.url });
    const { port } = new URL(await service.url());
    const body = JSON.stringify({ name: 'in-flight', scopes: ['read'] });
    const socket = connect(Number(port), '127.0.0.1').setEncoding('utf8');
    socket.write(
      'POST /v1/api-keys HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\n' +
        `content-length: ${body.length}\r\n\r\n`,
    );
    expect(await once(socket, 'data')).toEqual([expect.stringContaining('100 Continue')]);
    service.child.kill('SIGTERM');
    await service.line(/service\.draining/);
    await until(() => isRefused(Number(port)));
    socket.write(body);

    expect(await once(socket, 'data')).toEqual([expect.stringMatching(/^HTTP\/1\.1 201 [\s\S]*"in-flight"/)]);
    expect(await service.exit()).toBe(0);
    expect(service.errors()).toBe('');
    expect(service.output().split('\n').at(-1)).toContain('service.stopped');
  });

  it('does not wait for a client that connected and sent nothing', async () => {
    const service = started({ DATABASE_URL: database.url, DRAIN_TIMEOUT: '20s' });
    const { port } = new URL(await service.url());
    const socket = connect(Number(port), '127.0.0.1').on('error', () => undefined);
    await once(socket, 'connect');
    service.child.kill('SIGTERM');

    expect(await service.exit()).toBe(0);
    socket.destroy();
  });

  it.each([
    ['with another signal', 'SIGTERM'],
    ['with the same one, again and again', 'SIGINT'],
  ] as const)('exits at once at the second signal, %s', async (_how, second) => {
    const service = started({ DATABASE_URL: database.url, DRAIN_TIMEOUT: '10m' });
    const socket = await withoutItsBody(await service.url());
    service.child.kill('SIGINT');
    await service.line(/service\.draining/);
    await until(() => !service.child.kill(second) || service.child.exitCode !== null);

    expect(await service.exit()).toBe(1);
    socket.destroy();
  });

  it('drains once for a signal that arrives twice at the same time, and when its terminal closes meanwhile', async () => {
    const service = started({ DATABASE_URL: database.url });
    const socket = await withoutItsBody(await service.url());
    service.child.kill('SIGTERM');
    await service.line(/service\.draining/);
    for (const signal of ['SIGTERM', 'SIGHUP', 'SIGHUP'] as const) service.child.kill(signal);
    socket.write('{"a": 1}\n');

    expect(await service.exit()).toBe(0);
    socket.destroy();
  });

  it('exits with 1 when a drain takes too long', async () => {
    const service = started({ DATABASE_URL: database.url, DRAIN_TIMEOUT: '1s' });
    const socket = await withoutItsBody(await service.url());
    service.child.kill('SIGTERM');

    expect(await service.exit()).toBe(1);
    expect(service.output()).toContain('service.drain-timeout');
    socket.destroy();
  });
});

describe('the embedded database', () => {
  it('is stopped last, keeps its data over a stop and over a kill, and has exclusive access to it', async () => {
    const settings = { DATA_DIRECTORY: join(room, 'data') };

    const first = started(settings);
    await keep(await first.url(), 'first');
    expect(first.output()).toMatch(/database\s+PostgreSQL 18\S*, embedded in /);
    const postmaster = postmasterOf(settings.DATA_DIRECTORY);
    first.child.kill('SIGTERM');
    expect(await first.exit()).toBe(0);
    expect(await isAlive(postmaster)).toBe(false);
    expect(eventsAfterStop(first)).toEqual(['service.draining', 'service.stopped']);

    const second = started(settings);
    await keep(await second.url(), 'second');
    expect(await refusal(settings)).toMatch(
      /^sluice: The embedded PostgreSQL in .* is in use by a running service .*\n$/,
    );
    const orphan = postmasterOf(settings.DATA_DIRECTORY);
    second.child.kill('SIGKILL');
    expect(await second.exit()).toBe('SIGKILL');
    expect(await isAlive(orphan)).toBe(true);

    const third = started(settings);
    expect(await kept(await third.url())).toEqual(['first', 'second']);
    expect(await isAlive(orphan)).toBe(false);
    process.kill(postmasterOf(settings.DATA_DIRECTORY), 'SIGKILL');
    expect(await third.exit()).toBe(1);
    expect(third.output()).toContain('database.embedded-lost');
  });
});

describe('`npm start`', () => {
  const DATA = () => join(room, 'npm');
  const npmStart = async (more: Record<string, string> = {}) => {
    const service = started({ DATA_DIRECTORY: DATA(), ...more }, { npm: true });
    const { port } = new URL(await service.url());
    return { ...service, port: Number(port), pid: service.child.pid!, postmaster: postmasterOf(DATA()) };
  };
  /** Waits without limit: a service that keeps running exceeds the limit of the test. */
  const stopped = async ({ port, postmaster }: { port: number; postmaster: number }) => {
    await until(async () => (await isRefused(port)) && !(await isAlive(postmaster)));
    await until(() => readdirSync(DATA()).every((name) => !name.startsWith('owner-')));
  };

  it.each(['SIGTERM', 'SIGINT'] as const)(
    'has stopped the service and PostgreSQL when it exits after a %s to its own pid only',
    async (signal) => {
      const service = await npmStart();
      process.kill(service.pid, signal);

      expect(await service.exit()).toBe(0);
      expect([await isRefused(service.port), await isAlive(service.postmaster)]).toEqual([true, false]);
      expect(eventsAfterStop(service)).toEqual(['service.draining', 'service.stopped']);
    },
  );

  it.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    'drains once when the whole process group gets a %s, as from a terminal or from systemd',
    async (signal) => {
      const service = await npmStart();
      process.kill(-service.pid, signal);

      await service.exit();
      await stopped(service);
      expect(eventsAfterStop(service)).toEqual(['service.draining', 'service.stopped']);
    },
  );

  it.each(['SIGHUP', 'SIGKILL'] as const)(
    'does not leave the service behind when npm is ended by a %s that it does not forward',
    async (signal) => {
      const service = await npmStart();
      process.kill(service.pid, signal);

      await stopped(service);
      await service.exit();
      expect(eventsAfterStop(service)).toEqual(['service.draining', 'service.stopped']);
    },
  );

  it.each(['json', 'pretty'])('also drains when its output (%s) is no longer read', async (format) => {
    const service = await npmStart({ LOG_FORMAT: format });
    service.child.stdout!.destroy();
    service.child.stderr!.destroy();
    process.kill(-service.pid, 'SIGHUP');

    await stopped(service);
  });

  it('also stops PostgreSQL when it has to exit at once', async () => {
    const service = await npmStart({ DRAIN_TIMEOUT: '10m' });
    const socket = await withoutItsBody(`http://127.0.0.1:${service.port}`);
    process.kill(service.pid, 'SIGINT');
    await service.line(/service\.draining/);
    process.kill(service.pid, 'SIGTERM');

    expect(await service.exit()).toBe(1);
    await until(async () => !(await isAlive(service.postmaster)));
    socket.destroy();
  });
});

function started(settings: Record<string, string>, options: RunOptions = {}): BuiltService {
  const service = run(settings, options);
  services.push(service);
  return service;
}

/** What it prints to stderr when it does not start; stdout stays empty. */
async function refusal(settings: Record<string, string>, options: RunOptions = {}): Promise<string> {
  const service = started(settings, options);
  expect(await service.exit()).toBe(1);
  expect(service.output()).not.toContain('serving');
  return service.errors();
}

function eventsAfterStop(service: BuiltService): string[] {
  const events = [...service.output().matchAll(/"event":"([^"]+)"/g)].map(([, event]) => event!);
  return events.slice(events.indexOf('service.draining'));
}

async function keep(url: string, name: string): Promise<void> {
  const response = await fetch(`${url}/v1/api-keys`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name, scopes: ['read'] }),
  });
  expect(response.status).toBe(201);
}

async function kept(url: string): Promise<string[]> {
  const { items } = (await (await fetch(`${url}/v1/api-keys`)).json()) as { items: { name: string }[] };
  return items.map(({ name }) => name).sort();
}

function postmasterOf(dataDirectory: string): number {
  return Number(readFileSync(join(dataDirectory, 'postgres/postmaster.pid'), 'utf8').split('\n')[0]);
}

/** What a failed test may have left. */
async function stopOrphan(dataDirectory: string): Promise<void> {
  const data = join(dataDirectory, 'postgres');
  if (!existsSync(join(data, 'postmaster.pid'))) return;
  const pid = postmasterOf(dataDirectory);
  if (await isPostgresOn(data, pid)) process.kill(pid, 'SIGQUIT');
}

async function isAlive(pid: number): Promise<boolean> {
  return (await processIdentity(pid)) !== null;
}

/** Other users cannot reach a clone in root's own folder. */
function canReachUs(uid: number): boolean {
  return spawnSync('test', ['-r', join(ROOT, 'dist/src/main.js')], { uid, gid: uid }).status === 0;
}

/** A request that stays in flight: its body never arrives. */
async function withoutItsBody(url: string): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => undefined);
  socket.write('POST /v1/api-keys HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n');
  await once(socket, 'data');
  return socket;
}

/** Nothing listens there any more. */
function isRefused(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
      .once('error', () => resolve(true))
      .once('connect', () => {
        socket.destroy();
        resolve(false);
      });
  });
}
