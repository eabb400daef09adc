import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from 'node:http';
import { type AgentOptions, Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { HttpReply, HttpRequest, Transport } from './transport.ts';

export interface NodeTransport {
  readonly transport: Transport;
  /** Closes the idle connections. */
  close(): void;
}

/** Over agents that keep connections open and reuse them. */
export function nodeTransport(options: AgentOptions = {}): NodeTransport {
  const agents = {
    'http:': new HttpAgent({ keepAlive: true, ...options }),
    'https:': new HttpsAgent({ keepAlive: true, ...options }),
  };
  const transport: Transport = async (request) => {
    try {
      return await exchange(request, agents);
    } catch (error) {
      // Usually the service closed an idle connection at this moment. Every request of this library may be repeated.
      if (!(error instanceof StaleConnection)) throw error;
      return exchange(request, agents);
    }
  };
  return {
    transport,
    close: () => {
      for (const agent of Object.values(agents)) agent.destroy();
    },
  };
}

class StaleConnection extends Error {}

function exchange(
  { method, url, headers, body, signal }: HttpRequest,
  agents: Record<string, HttpAgent>,
): Promise<HttpReply> {
  const { protocol } = new URL(url);
  const send = protocol === 'https:' ? httpsRequest : httpRequest;
  // As bytes: Node sends a string together with the headers, as UTF-8, and headers are to be sent as Latin-1.
  const bytes = body === undefined ? undefined : Buffer.from(body);
  return new Promise((resolve, reject) => {
    const length = bytes ? { 'content-length': String(bytes.length) } : {};
    const request: ClientRequest = send(
      url,
      { method, headers: { ...headers, ...length }, agent: agents[protocol], signal },
      (response) => read(response).then(resolve, reject),
    );
    request.on('error', (error: Error & { code?: string }) => {
      const stale = request.reusedSocket && error.code === 'ECONNRESET' && !signal.aborted;
      reject(stale ? new StaleConnection(error.message, { cause: error }) : error);
    });
    request.end(bytes);
  });
}

async function read(response: IncomingMessage): Promise<HttpReply> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  const { statusCode = 0, headers } = response;
  return {
    status: statusCode,
    text: Buffer.concat(chunks).toString('utf8'),
    header: (name) => headers[name]?.toString(),
  };
}
