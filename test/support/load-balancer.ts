import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

const POLL_EVERY_MS = 200;

interface Backend {
  readonly url: string;
  ready: boolean;
}

/**
 * Like the Service of a Kubernetes cluster: new connections go in turn to the replicas whose /readyz returns 200, and stay
 * with that replica until one side closes. So a client with a keep-alive connection still reaches a replica that is about to stop.
 */
export interface LoadBalancer {
  readonly url: string;
  /** Resolves when new connections can go to it. */
  add(url: string): Promise<void>;
  /** Resolves when no new connections go to it. */
  removed(url: string): Promise<void>;
  close(): Promise<void>;
}

export async function startLoadBalancer(): Promise<LoadBalancer> {
  const backends = new Map<string, Backend>();
  const sockets = new Set<Socket>();
  let turn = 0;
  const server = createServer((client) => {
    const ready = [...backends.values()].filter((backend) => backend.ready);
    turn += 1;
    const backend = ready[turn % ready.length];
    if (backend) join(client, backend, sockets);
    else client.destroy();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const polling = setInterval(() => {
    for (const backend of backends.values()) void poll(backend);
  }, POLL_EVERY_MS);
  const untilReady = async (url: string, ready: boolean) => {
    while (backends.get(url)!.ready !== ready) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    add: (url) => {
      backends.set(url, { url, ready: false });
      return untilReady(url, true);
    },
    removed: (url) => untilReady(url, false),
    async close() {
      clearInterval(polling);
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

function join(client: Socket, { url }: Backend, sockets: Set<Socket>): void {
  const upstream = connect(Number(new URL(url).port), '127.0.0.1');
  for (const [one, other] of [
    [client, upstream],
    [upstream, client],
  ] as const) {
    sockets.add(one);
    one.pipe(other);
    one.on('error', () => other.destroy());
    one.on('close', () => {
      sockets.delete(one);
      other.destroySoon();
    });
  }
}

async function poll(backend: Backend): Promise<void> {
  const response = await fetch(`${backend.url}/readyz`).catch(() => undefined);
  await response?.text();
  backend.ready = response?.status === 200;
}
