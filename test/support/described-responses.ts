import { Ajv, type AnySchema, type Options, type ValidateFunction } from 'ajv';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { utcOf } from '../../src/http/time.ts';

type Json = Readonly<Record<string, unknown>>;

interface Content {
  readonly [mediaType: string]: { readonly schema?: Json };
}

interface Response {
  readonly content?: Content;
  readonly headers?: Readonly<Record<string, { readonly required?: boolean; readonly schema: Json }>>;
}

interface Operation {
  readonly parameters?: readonly { readonly in: string; readonly name: string; readonly schema: Json }[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, Response>>;
}

export interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components?: { readonly schemas?: Readonly<Record<string, Json>> };
}

/** Of these, a response has only those that are declared for it. */
const DECLARED_HEADERS = ['etag', 'location', 'retry-after', 'www-authenticate', 'allow'];
const UTC = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

/** Compares what a replica returns, and the requests that it accepts, with its OpenAPI document. */
export class DescribedResponses {
  private readonly responses: Validator;
  private readonly bodies: Validator;
  /** Of the path, of the query and headers: text, whatever their type is. */
  private readonly parameters: Validator;

  constructor(private readonly document: Document) {
    const { schemas = {} } = document.components ?? {};
    const formats = { 'date-time': (text: string) => utcOf(text) !== undefined };
    this.responses = new Validator(schemas, { formats: { 'date-time': UTC } }, closed);
    this.bodies = new Validator(schemas, { formats });
    this.parameters = new Validator(schemas, { formats, coerceTypes: true });
  }

  /** What differs from the document, one line per difference. */
  faultsOf(request: FastifyRequest, reply: FastifyReply, payload: unknown): string[] {
    const { url } = request.routeOptions;
    const path = url?.replace(/:(\w+)/g, '{$1}') ?? '';
    const operation = this.document.paths[path]?.[request.method.toLowerCase()];
    if (!operation) return [];
    const faults = [
      ...this.faultsOfResponse(operation, reply, payload),
      ...(reply.statusCode < 300 ? this.faultsOfRequest(operation, request) : []),
    ];
    return faults.map((fault) => `${request.method} ${path} ${reply.statusCode}: ${fault}`);
  }

  private faultsOfResponse({ responses }: Operation, reply: FastifyReply, payload: unknown): string[] {
    const response = responses[reply.statusCode] ?? (reply.statusCode >= 400 ? responses.default : undefined);
    if (!response) return ['the status is not declared'];
    const headers = faultsOfHeaders(response, reply, this.parameters);
    const { content } = response;
    const text = typeof payload === 'string' || Buffer.isBuffer(payload) ? payload.toString() : '';
    if (!content) return text === '' ? headers : [...headers, 'a body is not declared'];
    const type = mediaTypeOf(String(reply.getHeader('content-type')));
    const declared = content[type];
    if (!declared) return [...headers, `the media type ${type} is not declared`];
    const body: unknown = isJson(type) ? JSON.parse(text) : text;
    return [...headers, ...this.responses.faultsOf(declared.schema ?? {}, body)];
  }

  /** It was accepted, so the document must allow it. */
  private faultsOfRequest({ parameters = [], requestBody }: Operation, request: FastifyRequest): string[] {
    const query = [...new URL(request.url, 'http://sluice').searchParams];
    const given = query.map(([name, value]) => ({ place: 'query', name, value }));
    const faults = given.flatMap(({ place, name, value }) => {
      const parameter = parameters.find((one) => one.in === place && one.name === name);
      if (!parameter) return [`the ${place} parameter ${name} is not declared`];
      return this.parameters.faultsOf(parameter.schema, value).map((fault) => `${name} ${fault}`);
    });
    const path = Object.entries((request.params ?? {}) as Record<string, string>);
    for (const [name, value] of path) {
      const schema = parameters.find((one) => one.in === 'path' && one.name === name)?.schema;
      faults.push(
        ...this.parameters.faultsOf(schema ?? { not: {} }, value).map((fault) => `${name} ${fault}`),
      );
    }
    return [...faults, ...this.faultsOfBody(requestBody?.content, request)];
  }

  private faultsOfBody(content: Content | undefined, { body, headers }: FastifyRequest): string[] {
    const isEmpty = body === undefined || body === null || (Buffer.isBuffer(body) && body.length === 0);
    // A CloudEvent in binary mode is in the headers; its body may be anything.
    if (isEmpty || headers['ce-specversion'] !== undefined) return [];
    if (!content) return ['the request body is not declared'];
    const type = mediaTypeOf(headers['content-type'] ?? '');
    const declared = content[type];
    if (!declared) return [`the request media type ${type} is not declared`];
    const text = Buffer.isBuffer(body) ? body.toString() : undefined;
    const value: unknown =
      text === undefined ? structuredClone(body) : isJson(type) ? JSON.parse(text) : text;
    return this.bodies.faultsOf(declared.schema ?? {}, value).map((fault) => `request body ${fault}`);
  }
}

function faultsOfHeaders({ headers = {} }: Response, reply: FastifyReply, validator: Validator): string[] {
  const declared = Object.entries(headers).map(([name, header]) => ({ ...header, name: name.toLowerCase() }));
  const missing = declared.filter(({ name, required }) => required && !reply.hasHeader(name));
  const extra = DECLARED_HEADERS.filter((name) => reply.hasHeader(name)).filter(
    (name) => !declared.some((header) => header.name === name),
  );
  return [
    ...missing.map(({ name }) => `the header ${name} is missing`),
    ...extra.map((name) => `the header ${name} is not declared`),
    ...declared
      .filter(({ name }) => reply.hasHeader(name))
      .flatMap(({ name, schema }) => validator.faultsOf(schema, String(reply.getHeader(name))))
      .map((fault) => `header ${fault}`),
  ];
}

/** Schemas of the document, compiled when they are first needed. */
class Validator {
  private readonly ajv: Ajv;
  private readonly compiled = new Map<unknown, ValidateFunction>();

  constructor(
    private readonly schemas: Json,
    options: Options,
    private readonly transform: (schema: unknown) => unknown = (schema) => schema,
  ) {
    this.ajv = new Ajv({ allErrors: true, keywords: ['example', 'components'], ...options });
  }

  faultsOf(schema: Json, value: unknown): string[] {
    const validate = this.compiled.get(schema) ?? this.compile(schema);
    // Wrapped: ajv can coerce only a value that is a member of something.
    if (validate({ value })) return [];
    return (validate.errors ?? []).map(({ instancePath, message, params }) => {
      const names = Object.values(params).join(', ');
      return `${instancePath.replace('/value', '')} ${message} (${names})`.trimStart();
    });
  }

  private compile(schema: Json): ValidateFunction {
    const root = { type: 'object', properties: { value: schema }, components: { schemas: this.schemas } };
    const validate = this.ajv.compile(this.transform(root) as AnySchema);
    this.compiled.set(schema, validate);
    return validate;
  }
}

/** Every object may have only its declared members: an extra or a misspelt one is noticed. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const members = Object.entries(schema).map(([name, value]) => [name, closed(value)]);
  const copy = Object.fromEntries(members);
  const isClosable = copy.type === 'object' && copy.properties && copy.additionalProperties === undefined;
  return isClosable ? { ...copy, additionalProperties: false } : copy;
}

/** Lines of JSON are text. */
function isJson(mediaType: string): boolean {
  return /[/+]json$/.test(mediaType);
}

function mediaTypeOf(header: string): string {
  return header.split(';')[0]!.trim().toLowerCase();
}
