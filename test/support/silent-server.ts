import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

/** Accepts connections and never sends a byte. */
export async function startSilentServer(): Promise<{ url: string; close(): Promise<void> }> {
  const sockets: Socket[] = [];
  const silent = createServer((socket) => void sockets.push(socket)).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  return {
    url: `postgres://x:y@127.0.0.1:${(silent.address() as AddressInfo).port}/z`,
    async close() {
      for (const socket of sockets) socket.destroy();
      silent.close();
      await once(silent, 'close');
    },
  };
}
