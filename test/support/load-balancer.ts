import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

const LOOK_EVERY_MS = 200;

interface Backend {
  readonly url: string;
  ready: boolean;
}

/**
 * In front of replicas, as the Service of a cluster: a new connection goes to one whose /readyz says 200, by turns, and
 * stays with it until one of the two hangs up. Whoever keeps a connection alive asks a replica that is about to stop.
 */
export interface LoadBalancer {
  readonly url: string;
  /** Resolves when connections go to it. */
  add(url: string): Promise<void>;
  /** Resolves when no new ones do. */
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
  const looking = setInterval(() => {
    for (const backend of backends.values()) void look(backend);
  }, LOOK_EVERY_MS);
  const settled = async (url: string, ready: boolean) => {
    while (backends.get(url)!.ready !== ready) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    add: (url) => {
      backends.set(url, { url, ready: false });
      return settled(url, true);
    },
    removed: (url) => settled(url, false),
    async close() {
      clearInterval(looking);
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

async function look(backend: Backend): Promise<void> {
  const answer = await fetch(`${backend.url}/readyz`).catch(() => undefined);
  await answer?.text();
  backend.ready = answer?.status === 200;
}
