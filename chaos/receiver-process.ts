import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Version } from './fleet.ts';

/** `names`: of the receivers. */
export async function startReceivers(
  names: readonly string[],
  { folder: program }: Version,
  ports: readonly number[],
  folder: string,
  seed: number,
): Promise<ChildProcess> {
  const receivers = names.map((name, index) => `${name}=${ports[index]}`);
  const child = spawn(process.execPath, [join(program, 'chaos/receivers.js')], {
    env: {
      PATH: process.env.PATH,
      CHAOS_RECEIVERS: receivers.join(','),
      CHAOS_ARRIVALS: join(folder, 'arrivals.jsonl'),
      CHAOS_SEED: String(seed),
    },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  await once(child, 'message');
  return child;
}

export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
