import { spawn, spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

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

/** An empty stream on file storage, which knows no message id of an earlier round. */
export async function withStream(url, work) {
  const { connect } = await import('@nats-io/transport-node');
  const { jetstream, jetstreamManager } = await import('@nats-io/jetstream');
  const connection = await connect({ servers: url });
  const manager = await jetstreamManager(connection);
  await manager.streams.delete('SINK').catch(() => undefined);
  await manager.streams.add({ name: 'SINK', subjects: ['sink.>'], storage: 'file' });
  const result = await work(jetstream(connection));
  const { state } = await manager.streams.info('SINK');
  await connection.drain();
  return { result, stored: state.messages };
}

export async function startNats() {
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
