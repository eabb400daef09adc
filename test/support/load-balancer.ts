import { once } from 'node:events';
import { Agent, request as call, createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

const LOOK_EVERY_MS = 50;

interface Backend {
  readonly url: string;
  readonly agent: Agent;
  ready: boolean;
}

/** In front of replicas, as a real one: keeps connections, sends to those whose /readyz says 200, never sends twice. */
export interface LoadBalancer {
  readonly url: string;
  /** Resolves when it is sent to. */
  add(url: string): Promise<void>;
  /** Resolves when nothing more is sent to it. */
  removed(url: string): Promise<void>;
  close(): Promise<void>;
}

export async function startLoadBalancer(): Promise<LoadBalancer> {
  const backends = new Map<string, Backend>();
  let turn = 0;
  const next = () => {
    const ready = [...backends.values()].filter((backend) => backend.ready);
    turn += 1;
    return ready[turn % ready.length];
  };
  const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    const backend = next();
    if (backend) pass(backend, request, response);
    else response.writeHead(503, { 'x-from': 'load balancer' }).end();
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
      backends.set(url, { url, agent: new Agent({ keepAlive: true, maxFreeSockets: 64 }), ready: false });
      return settled(url, true);
    },
    removed: (url) => settled(url, false),
    async close() {
      clearInterval(looking);
      for (const { agent } of backends.values()) agent.destroy();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

function pass(backend: Backend, request: IncomingMessage, response: ServerResponse): void {
  const { method, headers, url } = request;
  const onward = call(new URL(url!, backend.url), { method: method!, headers, agent: backend.agent });
  onward.on('response', (answer) => {
    const { connection: _, 'keep-alive': __, ...rest } = answer.headers;
    response.writeHead(answer.statusCode!, rest);
    answer.pipe(response);
  });
  onward.on('error', (error) => response.writeHead(502).end(`${backend.url}: ${error.message}`));
  request.pipe(onward);
}

async function look(backend: Backend): Promise<void> {
  const answer = await fetch(`${backend.url}/readyz`).catch(() => undefined);
  await answer?.text();
  backend.ready = answer?.status === 200;
}
