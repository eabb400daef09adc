import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { buffer } from 'node:stream/consumers';

export interface HttpBytes {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A response as sent: `fetch` would request compression on its own and decompress the body. */
export async function httpBytes(
  url: string,
  headers: Record<string, string> = {},
  method = 'GET',
): Promise<HttpBytes> {
  const sent = request(url, { method, headers, agent: false });
  sent.end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: response.statusCode!, headers: response.headers, body: await buffer(response) };
}
