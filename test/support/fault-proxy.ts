import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach } from '@jest/globals';

/**
 * What becomes of one request. `lost`: the service handles it and the response is lost; `cut`: half of the response arrives;
 * `hang`: the service never gets it and nobody responds; `refuse`: the connection is closed before the service gets it.
 */
export type Fault =
  | 'pass'
  | 'lost'
  | 'cut'
  | 'hang'
  | 'refuse'
  | { readonly status: number; readonly retryAfter?: number };

export interface Forwarded {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** An HTTP proxy in front of a replica that fails in the way that `next` says for each request. */
export interface FaultProxy {
  readonly url: string;
  /** All requests so far. */
  readonly requests: readonly Forwarded[];
  /** How many of them had each fault. */
  readonly faults: ReadonlyMap<string, number>;
  next: (request: Forwarded) => Fault;
  close(): Promise<void>;
}

const ALL: readonly Fault[] = [
  'pass',
  'lost',
  { status: 503 },
  'hang',
  'pass',
  'refuse',
  'cut',
  { status: 502 },
];

/** Every fault in turn, over all proxies that share it. */
export function everyFault(): FaultProxy['next'] {
  let requests = 0;
  return () => ALL[(requests++ * 5) % ALL.length]!;
}

/** The faults of `everyFault` that none of these proxies had. */
export function missingFaults(proxies: readonly FaultProxy[]): string[] {
  const names = ALL.map((fault) => (typeof fault === 'string' ? fault : String(fault.status)));
  return names.filter((name) => !proxies.some(({ faults }) => faults.get(name)));
}

/** Starts proxies that are closed after the test. */
export function faultProxiesPerTest(): typeof startFaultProxy {
  const proxies: FaultProxy[] = [];
  afterEach(async () => {
    for (const proxy of proxies.splice(0)) await proxy.close();
  });
  return async (target, next) => {
    const proxy = await startFaultProxy(target, next);
    proxies.push(proxy);
    return proxy;
  };
}

export async function startFaultProxy(
  target: string,
  next: FaultProxy['next'] = () => 'pass',
): Promise<FaultProxy> {
  const requests: Forwarded[] = [];
  const faults = new Map<string, number>();
  const server = createServer(async (request, response) => {
    const forwarded = await readRequest(request);
    requests.push(forwarded);
    const fault = proxy.next(forwarded);
    const name = typeof fault === 'string' ? fault : String(fault.status);
    faults.set(name, (faults.get(name) ?? 0) + 1);
    if (fault === 'refuse') request.socket.destroy();
    else if (typeof fault === 'object') respond(response, fault);
    else if (fault !== 'hang')
      await forward(target, forwarded, response, fault).catch(() => request.socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const proxy: FaultProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    faults,
    next,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return proxy;
}

async function readRequest(request: IncomingMessage): Promise<Forwarded> {
  let body = '';
  for await (const chunk of request.setEncoding('utf8')) body += chunk;
  const { method = '', url: path = '', headers } = request;
  return { method, path, headers, body };
}

function respond(
  response: ServerResponse,
  { status, retryAfter }: { status: number; retryAfter?: number },
): void {
  response.writeHead(status, retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) }).end('no');
}

async function forward(
  target: string,
  { method, path, headers, body }: Forwarded,
  response: ServerResponse,
  fault: 'pass' | 'lost' | 'cut',
): Promise<void> {
  const upstream = httpRequest(target + path, { method, headers: { ...headers, connection: 'close' } });
  response.on('close', () => upstream.destroy());
  // As bytes: Node sends a string together with the headers, as UTF-8, and headers are to be sent as Latin-1.
  upstream.end(Buffer.from(body));
  const [reply] = (await once(upstream, 'response')) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of reply) chunks.push(chunk as Buffer);
  const bytes = Buffer.concat(chunks);
  if (fault === 'lost') return void response.destroy();
  response.writeHead(reply.statusCode!, reply.headers);
  if (fault === 'pass') return void response.end(bytes);
  response.write(bytes.subarray(0, bytes.length / 2), () => response.destroy());
}
