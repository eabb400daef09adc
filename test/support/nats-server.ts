import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import type { Certificate } from './certificate.ts';
import { acceptsConnections, freePort } from './free-port.ts';
import { reportSkipped } from './report-skipped.ts';
import { until } from './until.ts';

/** nats-server is a system package that may not be installed. */
export function hasNatsServer(promise: string): boolean {
  const there = spawnSync('nats-server', ['--version']).status === 0;
  if (!there) reportSkipped(promise, 'nats-server is not on the PATH: apt-get install nats-server');
  return there;
}

export interface StoredMessage {
  readonly subject: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

export interface NatsServer {
  readonly url: string;
  readonly port: number;
  /** With JetStream; `duplicateWindowMs` is 2 minutes by default, as the server's. */
  addStream(name: string, subjects: string[], duplicateWindowMs?: number): Promise<void>;
  setDuplicateWindow(name: string, ms: number): Promise<void>;
  /** Everything that the stream has, in its order. */
  stored(stream: string): Promise<StoredMessage[]>;
  /** The names of the clients that are connected. */
  connections(): Promise<string[]>;
  kill(): Promise<void>;
  /** On the same port, with what it has stored. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

const MILLION = 1_000_000;

/** A server of its own on loopback. `more`: further lines of its configuration; CERT and KEY in it are the files of `tls`. */
export async function startNatsServer(
  more = '',
  login: { user?: string; pass?: string } = {},
  tls?: Certificate,
): Promise<NatsServer> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-nats-'));
  const [port, monitor] = [await freePort(), await freePort()];
  const file = join(folder, 'nats.conf');
  if (tls) {
    writeFileSync(join(folder, 'cert.pem'), tls.cert);
    writeFileSync(join(folder, 'key.pem'), tls.key);
  }
  const own = more.replace('CERT', join(folder, 'cert.pem')).replace('KEY', join(folder, 'key.pem'));
  writeFileSync(
    file,
    `listen: 127.0.0.1:${port}\nhttp: 127.0.0.1:${monitor}\n` +
      `jetstream { store_dir: "${folder}/js", max_mem: 64MB, max_file: 1GB }\n${own}\n`,
  );
  let child: ChildProcess;
  const start = async () => {
    child = spawn('nats-server', ['-c', file], { stdio: 'ignore' });
    await until(() => acceptsConnections(port));
  };
  const kill = async (signal: NodeJS.Signals = 'SIGKILL') => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  };
  const connection = () =>
    connect({
      servers: `127.0.0.1:${port}`,
      reconnect: false,
      ...login,
      ...(tls ? { tls: { ca: tls.cert, rejectUnauthorized: false } as object } : {}),
    });
  const withManager = async <T>(
    work: (manager: Awaited<ReturnType<typeof jetstreamManager>>) => Promise<T>,
  ) => {
    const nats = await connection();
    try {
      return await work(await jetstreamManager(nats));
    } finally {
      await nats.close();
    }
  };
  await start();
  return {
    url: `nats://127.0.0.1:${port}`,
    port,
    connections: async () => {
      const response = await fetch(`http://127.0.0.1:${monitor}/connz`);
      const { connections } = (await response.json()) as { connections: { name?: string }[] };
      return connections.flatMap(({ name }) => name ?? []);
    },
    start,
    kill: () => kill(),
    addStream: (name, subjects, duplicateWindowMs = 120_000) =>
      withManager(async ({ streams }) => {
        await streams.add({ name, subjects, duplicate_window: duplicateWindowMs * MILLION });
      }),
    setDuplicateWindow: (name, ms) =>
      withManager(async ({ streams }) => {
        await streams.update(name, { duplicate_window: ms * MILLION });
      }),
    stored: async (stream) => {
      const nats = await connection();
      try {
        const { state } = await (await jetstreamManager(nats)).streams.info(stream);
        if (state.messages === 0) return [];
        const consumer = await jetstream(nats).consumers.get(stream);
        const list: StoredMessage[] = [];
        for await (const one of await consumer.fetch({ max_messages: state.messages, expires: 5_000 })) {
          const names = one.headers?.keys() ?? [];
          const headers = Object.fromEntries(names.map((name) => [name, one.headers!.get(name)]));
          list.push({ subject: one.subject, headers, text: one.string() });
        }
        return list;
      } finally {
        await nats.close();
      }
    },
    stop: async () => {
      await kill('SIGTERM');
      rmSync(folder, { recursive: true });
    },
  };
}
