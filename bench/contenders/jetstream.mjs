import { spawn, spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpuSecondsOf } from '../harness/cpu.mjs';
import { Progress } from '../harness/progress.mjs';
import { keyOf, payloadOf } from '../harness/workload.mjs';

/** Debian's nats-server, if it is installed: the folder is not in everybody's PATH. */
const NATS = ['nats-server', '/usr/sbin/nats-server'].find(
  (command) => spawnSync(command, ['--version']).status === 0,
);
const MAX_START_MS = 30_000;

/** Undefined: it is not installed. */
export function natsVersion() {
  if (!NATS) return undefined;
  return spawnSync(NATS, ['--version'], { encoding: 'utf8' }).stdout.trim().replace('nats-server: ', '');
}

export async function setup() {}

/** The messages are published in `drain`: JetStream's files are not in the database that is cloned for each round. */
export async function seed() {}

/** Pulled in 500s by one consumer, each message acknowledged, without waiting for that; on file storage, one replica. */
export async function drain({ url, complete, ...counts }) {
  const messages = counts.until;
  const { connect } = await import('@nats-io/transport-node');
  const { AckPolicy, jetstream, jetstreamManager } = await import('@nats-io/jetstream');
  const server = await startServer();
  let cpuBefore;
  const progress = new Progress(counts, () => {
    cpuBefore = cpuSecondsOf(server.pid);
  });
  const connection = await connect({ servers: `127.0.0.1:${server.port}` });
  const manager = await jetstreamManager(connection);
  await manager.streams.add({ name: 'bench', subjects: ['bench.>'], storage: 'file' });
  const stream = jetstream(connection);
  for (let from = 0; from < messages; from += 500) {
    const batch = Array.from({ length: Math.min(500, messages - from) }, (_, n) =>
      stream.publish(`bench.${keyOf(from + n)}`, JSON.stringify(payloadOf(from + n))),
    );
    await Promise.all(batch);
  }
  await manager.consumers.add('bench', {
    durable_name: 'all',
    ack_policy: AckPolicy.Explicit,
    max_ack_pending: 10_000,
  });
  const consumer = await stream.consumers.get('bench', 'all');
  for (let count = 0; count < messages; ) {
    for await (const message of await consumer.fetch({ max_messages: progress.batch(500), expires: 5_000 })) {
      message.json();
      message.ack();
      count += 1;
      progress.handled();
    }
  }
  const result = await progress.over();
  const serverCpu = cpuSecondsOf(server.pid) - cpuBefore || 0;
  await connection.drain();
  await server.stop();
  return { ...result, nodeCpu: result.nodeCpu + serverCpu };
}

async function startServer() {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-nats-'));
  const args = ['--addr', '127.0.0.1', '--port', '-1', '--jetstream', '--store_dir', folder];
  const child = spawn(NATS, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  process.on('exit', () => child.kill('SIGKILL'));
  const port = await new Promise((resolve, reject) => {
    let text = '';
    const fail = () => reject(new Error(`nats-server did not start: ${text}`));
    AbortSignal.timeout(MAX_START_MS).addEventListener('abort', fail);
    child.once('error', reject).once('exit', fail);
    child.stderr.on('data', (chunk) => {
      text += chunk;
      const match = /Listening for client connections on 127\.0\.0\.1:(\d+)/.exec(text);
      if (match && text.includes('Server is ready')) resolve(Number(match[1]));
    });
  });
  return {
    port,
    pid: child.pid,
    async stop() {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}
