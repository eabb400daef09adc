import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

export interface PrefixProxy {
  /** With the prefix and a slash at the end. */
  readonly url: string;
  /** Ends every connection and takes no new one. */
  cut(): void;
  restore(): void;
  /** Responds to requests of this path of the service with a status, as a proxy does whose service is away; 0: no more. */
  refuse(path: string, status: number): void;
  /** New requests go to the service at this URL. */
  switchTo(target: string): void;
  /** Passes nothing more of any response, and reads nothing more of it from the service. */
  stall(): void;
  flow(): void;
  close(): Promise<void>;
}

/** A reverse proxy that serves a service below a path, as an ingress does: the service does not know of the path. */
export async function startPrefixProxy(service: string, prefix: string): Promise<PrefixProxy> {
  let target = service;
  const responses = new Map<IncomingMessage, ServerResponse>();
  const sockets = new Set<Socket>();
  const refused = new Map<string, number>();
  let isCut = false;
  const server = createServer((incoming, response) => {
    if (!incoming.url!.startsWith(prefix)) return void response.writeHead(404).end('outside of the prefix');
    const path = `/${incoming.url!.slice(prefix.length)}`;
    const status = refused.get(path.split('?')[0]!);
    if (status) return void response.writeHead(status, { 'content-type': 'text/html' }).end('<h1>away</h1>');
    forward(incoming, response, `${target}${path}`, responses);
  });
  server.on('connection', (socket) => {
    if (isCut) return void socket.destroy();
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}${prefix}`,
    cut: () => {
      isCut = true;
      for (const socket of sockets) socket.destroy();
    },
    restore: () => {
      isCut = false;
    },
    refuse: (path, status) => void refused.set(path, status),
    switchTo: (url) => {
      target = url;
    },
    stall: () => {
      for (const [result, response] of responses) result.unpipe(response);
    },
    flow: () => {
      for (const [result, response] of responses) result.pipe(response);
    },
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

function forward(
  incoming: IncomingMessage,
  response: ServerResponse,
  url: string,
  open: Map<IncomingMessage, ServerResponse>,
): void {
  const outgoing = request(url, { method: incoming.method!, headers: incoming.headers }, (result) => {
    response.writeHead(result.statusCode!, result.headers);
    open.set(result, response);
    result.once('close', () => open.delete(result));
    // A stream that its service ends is broken off here, too.
    result.once('aborted', () => response.destroy());
    result.pipe(response);
  });
  outgoing.on('error', () => response.destroy());
  response.on('close', () => outgoing.destroy());
  incoming.pipe(outgoing);
}
