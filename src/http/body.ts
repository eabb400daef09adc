import type {
  FastifyBodyParser,
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  RequestPayload,
} from 'fastify';
import { decodeUtf8, ExactJson, type JsonSlice, type ScanOptions } from './json/exact-json.ts';
import { pointerTo } from './pointer.ts';
import { invalidFields, Problem, retryAfter } from './problems.ts';

const JSON_TYPES = ['application/json', 'application/cloudevents+json', 'application/cloudevents-batch+json'];

/** Maximum nesting depth of a payload; the object that contains it is one more level. */
const MAX_PAYLOAD_DEPTH = 64;

/** Maximum number of values in a parsed body. Each becomes an object in memory, and no valid body needs this many. */
const MAX_VALUES = 200_000;

/** Replaces Fastify's body parsers: a body is read whole and within limits, and JSON that cannot be kept exactly is rejected. */
export function addBodyParsers(fastify: FastifyInstance): void {
  fastify.removeAllContentTypeParsers();
  fastify.addContentTypeParser(JSON_TYPES, { parseAs: 'buffer' }, parserOf(parseExact));
  // Only routes that take raw bytes accept other types (CloudEvents in binary mode).
  fastify.addContentTypeParser('*', { parseAs: 'buffer' }, parserOf(rejectType));
}

function parserOf(parse: (body: Buffer) => unknown): FastifyBodyParser<Buffer> {
  return (request, body, done) => {
    // An empty body counts as none: generic clients set a content type even if they send nothing.
    if (body.length === 0) return void done(null, undefined);
    let content: unknown;
    try {
      rejectEncoded(request);
      content = isRaw(request) ? body : parse(body);
      if (request.routeOptions.config.body === 'none') rejectContent(content);
    } catch (error) {
      return void done(error as Error);
    }
    done(null, content);
  };
}

function rejectType(): never {
  throw new Problem('unsupported-media-type', 'Content-Type must be application/json.');
}

/** Bodies are never decompressed: a compressed one would be read as if it were the text itself. */
function rejectEncoded({ headers }: FastifyRequest): void {
  const encoding = headers['content-encoding'];
  if (encoding === undefined || encoding.toLowerCase() === 'identity') return;
  throw new Problem(
    'unsupported-media-type',
    'Content-Encoding is not supported. Send the body uncompressed.',
  );
}

function isRaw(request: FastifyRequest): boolean {
  return request.routeOptions.config.body?.startsWith('raw') ?? false;
}

/** For a route without a body. Some clients send `{}` for an empty body; any field would be ignored, so it is rejected. */
function rejectContent(body: unknown): void {
  if (typeof body !== 'object' || body === null)
    throw invalidFields([{ pointer: '', detail: 'must be empty' }]);
  const names = Object.keys(body);
  if (names.length === 0) return;
  throw invalidFields(
    names.map((name) => ({ pointer: pointerTo('', name), detail: 'is not a known field' })),
  );
}

/** Parses JSON whose values are kept exactly; otherwise throws a Problem that points at the value. */
function parseExact(body: Buffer): unknown {
  return JSON.parse(scan(body, { outline: 0 }).text);
}

/** A parsed object with one member, such as the payload of a message, kept as the text that was sent. */
export interface WithRawMember {
  /** The object without that member; the whole value if it is not an object. */
  readonly rest: unknown;
  readonly raw: string | undefined;
}

/** Reads the body of a route that takes it `raw`. */
export function readWithRawMember(
  { headers, body }: Pick<FastifyRequest, 'headers' | 'body'>,
  name: string,
): WithRawMember {
  if (!Buffer.isBuffer(body)) return { rest: undefined, raw: undefined };
  if (!/^application\/json *(;|$)/i.test(headers['content-type'] ?? '')) rejectType();
  const { text, document } = scan(body, { maxDepth: MAX_PAYLOAD_DEPTH + 1 });
  const value: unknown = JSON.parse(text);
  if (document.kind !== 'object') return { rest: value, raw: undefined };
  const { [name]: _, ...rest } = value as Record<string, unknown>;
  const member = document.children?.find(({ key }) => key === name);
  return { rest, raw: member && text.slice(member.start, member.end) };
}

function scan(body: Buffer, options?: ScanOptions): { text: string; document: JsonSlice } {
  const text = decodeUtf8(body);
  if (text === undefined) throw new Problem('malformed-json', 'The body is not valid UTF-8.');
  const scan = ExactJson.scan(text, { maxValues: MAX_VALUES, ...options });
  if (scan.ok) return { text, document: scan.value };
  const { code, pointer, detail } = scan.fault;
  if (code === 'malformed') throw new Problem('malformed-json', detail);
  if (code === 'too-many') throw invalidFields([{ pointer, detail }]);
  throw new Problem('invalid', 'The body contains a value that cannot be stored exactly.', {
    errors: [{ pointer, detail }],
  });
}

/**
 * Limits the total size of the request bodies in memory. A body stays in memory until its request gets its response, so a
 * limit per request is not enough: fifty large bodies at a time would exhaust the memory before any is examined. The limit
 * counts the bytes received, not the announced content-length: a client that announces much and sends nothing takes no
 * share from others.
 */
export class BodiesInFlight {
  private sum = { bytes: 0 };

  constructor(private readonly maxBytes: number) {}

  /** From now on, the limit is on the bodies of both. */
  shareWith({ sum }: BodiesInFlight): void {
    this.sum = sum;
  }

  /** Rejects a body that exceeds the limit, else counts its bytes until the response is sent or the client disconnects. */
  track(request: FastifyRequest, reply: FastifyReply, payload: RequestPayload): void {
    const length = Number(request.headers['content-length'] ?? 0);
    // A body over the limit of its route is rejected later, as too large.
    if (length <= request.routeOptions.bodyLimit) this.rejectOverLimit(length, 0);
    let own = 0;
    const count = (chunk: Buffer) => {
      own += chunk.length;
      this.sum.bytes += chunk.length;
      try {
        this.rejectOverLimit(0, own);
      } catch (error) {
        payload.off('data', count);
        // Fails Fastify's body reader; nothing reads the rest of the body.
        payload.emit('error', error);
      }
    };
    payload.on('data', count);
    reply.raw.once('close', () => {
      payload.off('data', count);
      this.sum.bytes -= own;
    });
  }

  /** A single body is always accepted, whatever its size. */
  private rejectOverLimit(more: number, own: number): void {
    if (this.sum.bytes === own || this.sum.bytes + more <= this.maxBytes) return;
    throw new Problem(
      'overloaded',
      'Too many request bodies are being received. Retry later.',
      retryAfter(1),
    );
  }
}
