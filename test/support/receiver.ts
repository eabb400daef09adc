import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What a receiver got. */
export interface Received {
  readonly at: number;
  /** With its query. */
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into whatever came
  readonly body: any;
}

export type Answering = (received: Received, response: ServerResponse, count: number) => void;

export interface Receiver {
  readonly url: string;
  readonly received: Received[];
  answering: Answering;
  close(): Promise<void>;
}

export const ok: Answering = (_received, response) => void response.writeHead(204).end();
export const status =
  (code: number, headers: Record<string, string> = {}): Answering =>
  (_received, response) =>
    void response.writeHead(code, headers).end(`answer ${code}`);
/** Takes the request and never answers. */
export const hang: Answering = () => undefined;

/** A real HTTP server on loopback that remembers everything and answers as it is told. */
export async function startReceiver(answering: Answering = ok): Promise<Receiver> {
  const received: Received[] = [];
  const server: Server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      const one = { at: Date.now(), path: request.url!, headers: request.headers, text, body: parsed(text) };
      received.push(one);
      receiver.answering(one, response, received.length);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const receiver: Receiver = {
    url: `http://127.0.0.1:${port}/hook`,
    received,
    answering,
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
