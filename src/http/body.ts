import type { FastifyBodyParser, FastifyInstance, FastifyRequest } from 'fastify';
import { decodeUtf8, ExactJson } from './json/exact-json.ts';
import { pointerTo } from './pointer.ts';
import { faultyFields, Problem } from './problems.ts';

const JSON_TYPES = ['application/json', 'application/cloudevents+json', 'application/cloudevents-batch+json'];

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
  const text = decodeUtf8(body);
  if (text === undefined) throw new Problem('malformed-json', 'The body is not UTF-8.');
  const scan = ExactJson.scan(text, { outline: 0, maxValues: MAX_VALUES });
  if (scan.ok) return JSON.parse(text);
  const { code, pointer, detail } = scan.fault;
  if (code === 'malformed') throw new Problem('malformed-json', detail);
  if (code === 'too-many') throw faultyFields([{ pointer, detail }]);
  throw new Problem('invalid', 'The body holds something that cannot be kept exactly.', {
    errors: [{ pointer, detail }],
  });
}
