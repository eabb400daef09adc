import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A request that a receiver got. */
export interface Received {
  readonly at: number;
  /** Including the query. */
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests read arbitrary bodies
  readonly body: any;
}

export type Responder = (received: Received, response: ServerResponse, count: number) => void;

export interface Receiver {
  readonly url: string;
  readonly received: Received[];
  respond: Responder;
  close(): Promise<void>;
}

export const ok: Responder = (_received, response) => void response.writeHead(204).end();
export const status =
  (code: number, headers: Record<string, string> = {}): Responder =>
  (_received, response) =>
    void response.writeHead(code, headers).end(`response ${code}`);
/** Reads the request and never responds. */
export const hang: Responder = () => undefined;

/** A real HTTP server on loopback that records every request and responds as configured. */
export async function startReceiver(answering: Responder = ok): Promise<Receiver> {
  const received: Received[] = [];
  const server: Server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      const one = { at: Date.now(), path: request.url!, headers: request.headers, text, body: parsed(text) };
      received.push(one);
      receiver.respond(one, response, received.length);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const receiver: Receiver = {
    url: `http://127.0.0.1:${port}/hook`,
    received,
    respond: answering,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return receiver;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
