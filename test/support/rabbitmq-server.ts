import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Connection } from 'rabbitmq-client';
import { acceptsConnections, freePort } from './free-port.ts';
import { reportSkipped } from './report-skipped.ts';
import { until } from './until.ts';

const PACKAGES = '/usr/lib/rabbitmq/lib';
/** Erlang and all applications of the broker, on a busy machine. */
const START_MS = 90_000;

/** The script of Debian's package that starts a node as the user who calls it. */
function script(): string | undefined {
  if (!existsSync(PACKAGES)) return undefined;
  const [version] = readdirSync(PACKAGES).filter((name) => name.startsWith('rabbitmq_server-'));
  return version && join(PACKAGES, version, 'sbin/rabbitmq-server');
}

export function hasRabbitServer(promise: string): boolean {
  const there = script() !== undefined;
  if (!there) reportSkipped(promise, `no RabbitMQ in ${PACKAGES}: apt-get install rabbitmq-server`);
  return there;
}

export interface StoredMessage {
  readonly id: string | undefined;
  readonly routingKey: string;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
}

export interface RabbitServer {
  readonly url: string;
  readonly port: number;
  /** For setting up and reading queues. */
  connection(): Connection;
  /** Takes everything that a queue has. */
  taken(queue: string): Promise<StoredMessage[]>;
  kill(): Promise<void>;
  /** On the same port, with what it has stored. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** A node of its own on loopback, with its own data, cookie and port mapper. */
export async function startRabbitServer(): Promise<RabbitServer> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-rabbit-'));
  const [port, epmdPort, distPort] = [await freePort(), await freePort(), await freePort()];
  const config = join(folder, 'rabbit.conf');
  writeFileSync(config, `listeners.tcp.1 = 127.0.0.1:${port}\nlog.console = false\nloopback_users = none\n`);
  writeFileSync(join(folder, 'plugins'), '[].');
  const own = { ERL_EPMD_PORT: String(epmdPort), ERL_EPMD_ADDRESS: '127.0.0.1' };
  // Started first, as a child: the node would start one that outlives it.
  const mapper = spawn('epmd', [], { stdio: 'ignore', env: { ...process.env, ...own } });
  await until(() => acceptsConnections(epmdPort));
  let node: ChildProcess;
  const start = async () => {
    node = spawn(script()!, [], {
      stdio: 'ignore',
      detached: true,
      env: {
        ...process.env,
        ...own,
        HOME: folder,
        RABBITMQ_NODENAME: `sluice${port}@localhost`,
        RABBITMQ_DIST_PORT: String(distPort),
        RABBITMQ_MNESIA_BASE: join(folder, 'mnesia'),
        RABBITMQ_LOG_BASE: join(folder, 'log'),
        RABBITMQ_CONFIG_FILE: config,
        RABBITMQ_CONF_ENV_FILE: '/dev/null',
        RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'plugins'),
      },
    });
    await until(() => acceptsConnections(port), START_MS);
  };
  const kill = async () => {
    if (node.exitCode !== null || node.signalCode !== null) return;
    const ended = once(node, 'exit');
    // The script and the node that it started are one process group, which is this test's.
    process.kill(-node.pid!, 'SIGKILL');
    await ended;
    await until(async () => !(await acceptsConnections(port)));
  };
  const connection = () => {
    const opened = new Connection(`amqp://guest:guest@127.0.0.1:${port}`);
    opened.on('error', () => undefined);
    return opened;
  };
  await start();
  return {
    url: `amqp://127.0.0.1:${port}`,
    port,
    connection,
    start,
    kill,
    taken: async (queue) => {
      const reader = connection();
      const list: StoredMessage[] = [];
      for (;;) {
        const one = await reader.basicGet({ queue, noAck: true });
        if (!one) break;
        const { messageId, routingKey, headers = {}, body } = one;
        list.push({
          id: messageId,
          routingKey,
          headers,
          text: Buffer.isBuffer(body) ? body.toString() : JSON.stringify(body),
        });
      }
      await reader.close();
      return list;
    },
    stop: async () => {
      await kill();
      const ended = once(mapper, 'exit');
      mapper.kill('SIGTERM');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
