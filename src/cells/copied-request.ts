import { IncomingMessage, type OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

export interface CopyReply {
  readonly statusCode: number;
  readonly headers: OutgoingHttpHeaders;
  readonly payload: string;
}

/** Makes a GET of another engine of this process, without a connection. */
export function callCopy(
  { routing }: Pick<FastifyInstance, 'routing'>,
  url: string,
  headers: Record<string, string | string[] | undefined>,
): Promise<CopyReply> {
  const request = new IncomingMessage(new Socket());
  Object.assign(request, { method: 'GET', url, headers, httpVersion: '1.1' });
  request.push(null);
  return new Promise((resolve) => {
    routing(request, new CopiedResponse(request, resolve));
  });
}

/** Keeps what Fastify writes. */
class CopiedResponse extends ServerResponse {
  private readonly chunks: Buffer[] = [];
  private written: OutgoingHttpHeaders = {};

  constructor(
    request: IncomingMessage,
    private readonly onEnd: (reply: CopyReply) => void,
  ) {
    super(request);
  }

  // biome-ignore lint/suspicious/noExplicitAny: Node declares several overloads
  override writeHead(statusCode: number, ...rest: any[]): this {
    const headers = rest.at(-1);
    this.statusCode = statusCode;
    this.written = { ...this.getHeaders(), ...(typeof headers === 'object' ? headers : {}) };
    return this;
  }

  // biome-ignore lint/suspicious/noExplicitAny: Node declares several overloads
  override write(chunk: any): boolean {
    this.chunks.push(Buffer.from(chunk));
    return true;
  }

  // biome-ignore lint/suspicious/noExplicitAny: Node declares several overloads
  override end(chunk?: any): this {
    if (typeof chunk === 'string' || Buffer.isBuffer(chunk)) this.write(chunk);
    // By it Fastify knows that the response was sent.
    Object.defineProperty(this, 'writableEnded', { value: true });
    const { statusCode, written: headers } = this;
    this.onEnd({ statusCode, headers, payload: Buffer.concat(this.chunks).toString() });
    this.emit('finish');
    this.emit('close');
    return this;
  }
}
