import type { FastifyBodyParser, FastifyInstance, FastifyRequest } from 'fastify';
import { decodeUtf8, ExactJson, type JsonSlice, type ScanOptions } from './json/exact-json.ts';
import { pointerTo } from './pointer.ts';
import { faultyFields, Problem } from './problems.ts';

const JSON_TYPES = ['application/json', 'application/cloudevents+json', 'application/cloudevents-batch+json'];

/** How deep a payload may be nested; the object around it comes on top. */
const MAX_MEMBER = 64;

/** Values of a body that is parsed: each becomes an object, and none of these bodies has a use for so many. */
const MAX_VALUES = 200_000;

/** Teaches Fastify our one way to read a body: whole, bounded, and exact or refused. */
export function readBodies(fastify: FastifyInstance): void {
  fastify.removeAllContentTypeParsers();
  fastify.addContentTypeParser(JSON_TYPES, { parseAs: 'buffer' }, reader(parseExact));
  // Other types reach only routes that take the bytes as they are (CloudEvents in binary mode).
  fastify.addContentTypeParser('*', { parseAs: 'buffer' }, reader(refuseType));
}

function reader(parse: (body: Buffer) => unknown): FastifyBodyParser<Buffer> {
  return (request, body, done) => {
    // An empty body is no body: generic clients set a content type even where they send nothing.
    if (body.length === 0) return void done(null, undefined);
    let taken: unknown;
    try {
      refuseEncoded(request);
      taken = isRaw(request) ? body : parse(body);
      if (request.routeOptions.config.body === 'none') refuseContent(taken);
    } catch (error) {
      return void done(error as Error);
    }
    done(null, taken);
  };
}

function refuseType(): never {
  throw new Problem('unsupported-media-type', 'Send application/json.');
}

/** A compressed body would be taken for the text itself. */
function refuseEncoded({ headers }: FastifyRequest): void {
  const encoding = headers['content-encoding'];
  if (encoding === undefined || encoding.toLowerCase() === 'identity') return;
  throw new Problem('unsupported-media-type', 'Send the body without a content-encoding.');
}

function isRaw(request: FastifyRequest): boolean {
  return request.routeOptions.config.body?.startsWith('raw') ?? false;
}

/** `{}` is what some clients send for nothing; what says anything would be ignored. */
function refuseContent(body: unknown): void {
  if (typeof body !== 'object' || body === null)
    throw faultyFields([{ pointer: '', detail: 'must be empty' }]);
  const names = Object.keys(body);
  if (names.length === 0) return;
  throw faultyFields(names.map((name) => ({ pointer: pointerTo('', name), detail: 'is not a known field' })));
}

/** JSON that means the same here as it did to the sender, or a Problem that names the place. */
function parseExact(body: Buffer): unknown {
  return JSON.parse(scanned(body, { outline: 0 }).text);
}

/** An object of which one member, as deep as the payload of a message may be, is kept as the text it was sent as. */
export interface WithRawMember {
  /** Without the member; whatever it is, if it is no object. */
  readonly rest: unknown;
  readonly raw: string | undefined;
}

/** The body of a route that takes it `raw`. */
export function readWithRawMember(
  { headers, body }: Pick<FastifyRequest, 'headers' | 'body'>,
  name: string,
): WithRawMember {
  if (!Buffer.isBuffer(body)) return { rest: undefined, raw: undefined };
  if (!/^application\/json *(;|$)/i.test(headers['content-type'] ?? '')) refuseType();
  const { text, document } = scanned(body, { maxDepth: MAX_MEMBER + 1 });
  const value: unknown = JSON.parse(text);
  if (document.kind !== 'object') return { rest: value, raw: undefined };
  const { [name]: _, ...rest } = value as Record<string, unknown>;
  const member = document.children?.find(({ key }) => key === name);
  return { rest, raw: member && text.slice(member.start, member.end) };
}

function scanned(body: Buffer, options?: ScanOptions): { text: string; document: JsonSlice } {
  const text = decodeUtf8(body);
  if (text === undefined) throw new Problem('malformed-json', 'The body is not UTF-8.');
  const scan = ExactJson.scan(text, { maxValues: MAX_VALUES, ...options });
  if (scan.ok) return { text, document: scan.value };
  const { code, pointer, detail } = scan.fault;
  if (code === 'malformed') throw new Problem('malformed-json', detail);
  if (code === 'too-many') throw faultyFields([{ pointer, detail }]);
  throw new Problem('invalid', 'The body holds something that cannot be kept exactly.', {
    errors: [{ pointer, detail }],
  });
}
