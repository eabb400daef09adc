import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';

export const LOOPBACK = '127.0.0.1';

/** The port of the last start when it is still free (bookmarked psql sessions live on), else any free one. */
export async function choosePort(portFile: string, avoid?: number): Promise<number> {
  const last = Number(await readFile(portFile, 'utf8').catch(() => '0'));
  if (last > 0 && last < 65_536 && last !== avoid && (await freePort(last)) === last) return last;
  return (await freePort(0))!;
}

/** For the next start; without it that one takes another port, so a failure is no reason to stop. */
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
