import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP proxy to a broker that can lose what the broker replies. */
export interface BrokerProxy {
  readonly port: number;
  /** What the broker sends from now on does not arrive; what it is sent still does. */
  swallowReplies(): void;
  /** Bytes of replies that were swallowed so far. */
  readonly swallowed: number;
  /** The next reply that contains this text does not arrive, as a whole. */
  loseNext(text: string): void;
  /** Ends all connections, and forwards everything on the next ones. */
  cut(): void;
  close(): Promise<void>;
}

export async function startBrokerProxy(port: number): Promise<BrokerProxy> {
  const sockets = new Set<Socket>();
  let [isSwallowing, swallowed] = [false, 0];
  let lost: string | undefined;
  const server = createServer((client) => {
    const broker = connect(port, '127.0.0.1');
    client.on('data', (chunk) => broker.write(chunk));
    broker.on('data', (chunk) => {
      const isLost = lost !== undefined && chunk.includes(lost);
      if (isLost) lost = undefined;
      if (isSwallowing || isLost) swallowed += chunk.length;
      else client.write(chunk);
    });
    for (const [one, other] of [
      [client, broker],
      [broker, client],
    ] as const) {
      sockets.add(one);
      one.on('error', () => undefined);
      one.on('close', () => {
        sockets.delete(one);
        other.destroy();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = () => {
    isSwallowing = false;
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    swallowReplies: () => {
      isSwallowing = true;
    },
    loseNext: (text) => {
      lost = text;
    },
    get swallowed() {
      return swallowed;
    },
    cut,
    close: async () => {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
