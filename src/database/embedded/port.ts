import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';

export const LOOPBACK = '127.0.0.1';

/** The port of the last start if it is free (so that saved psql connections keep working), else any free one. */
export async function choosePort(portFile: string, avoid?: number): Promise<number> {
  const last = Number(await readFile(portFile, 'utf8').catch(() => '0'));
  if (last > 0 && last < 65_536 && last !== avoid && (await freePort(last)) === last) return last;
  return (await freePort(0))!;
}

/** Remembers the port for the next start. A failure is ignored: the next start would only use another port. */
export async function rememberPort(portFile: string, port: number): Promise<void> {
  await writeFile(portFile, `${port}\n`).catch(() => {});
}

async function freePort(wanted: number): Promise<number | null> {
  const probe = createServer().listen(wanted, LOOPBACK);
  try {
    await once(probe, 'listening');
  } catch {
    return null;
  }
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}
