import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { tracingWanted } from '../../src/telemetry/tracing.ts';
import { ADMIN_KEY } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const TRACE = '0af7651916cd43dd8448eb211c80319c';
const CALLER = 'b7ad6b7169203331';
const TRACED = { traceparent: `00-${TRACE}-${CALLER}-01` };

/** Part of everything private; no exported byte may contain it. */
const CANARY = 'canary7f3a';

let database: TestDatabase;
let collector: Collector;
const running = new Set<ChildProcess>();

beforeAll(async () => {
  spawnSync(process.execPath, ['-e', "import('./scripts/ready.mjs').then(({ build }) => build())"], {
    cwd: ROOT,
  });
  database = await createDatabase();
  collector = await startCollector();
});
afterAll(async () => {
  for (const child of running) child.kill('SIGKILL');
  await collector.close();
  await database.drop();
});

describe('tracing', () => {
  it('is enabled by the standard variables only', () => {
    const wanted = (environment: Record<string, string>) => tracingWanted(environment);
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };
    expect(wanted({})).toBe(false);
    expect(wanted({ OTEL_SERVICE_NAME: 'sluice', OTEL_TRACES_EXPORTER: '' })).toBe(false);
    expect(wanted(endpoint)).toBe(true);
    expect(wanted({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://collector:4318/v1/traces' })).toBe(true);
    expect(wanted({ OTEL_TRACES_EXPORTER: 'otlp' })).toBe(true);
    expect(wanted({ ...endpoint, OTEL_TRACES_EXPORTER: 'none' })).toBe(false);
    expect(wanted({ ...endpoint, OTEL_SDK_DISABLED: 'true' })).toBe(false);
  });

  it('adds a request and its statements to the trace of the caller, and exports everything before the exit', async () => {
    collector.clear();
    const { created, exitCode, loaded } = await runService(collector.variables);

    expect(exitCode).toBe(0);
    expect(loaded).toContain('@opentelemetry/sdk-trace-node');
    const spans = collector.spans();
    for (const name of ['GET /readyz', 'POST /v1/api-keys']) {
      const served = spans.filter((span) => span.name === name);
      expect(served).toMatchObject([{ kind: SERVER, traceId: TRACE, parentSpanId: CALLER }]);
    }
    const posted = spans.find(({ name }) => name === 'POST /v1/api-keys')!;
    const insert = spans.find((span) => attribute(span, 'db.query.text')?.includes('INSERT INTO api_key'))!;
    expect(ancestors(insert, spans)).toContain(posted.spanId);
    expect(attribute(insert, 'db.query.text')).toContain('$1');
    expect(collector.text()).toContain('"sluice"');

    for (const secret of [
      CANARY,
      ADMIN_KEY,
      created.key,
      created.key.split('_').slice(2).join('_'),
      password(),
    ]) {
      expect(collector.text()).not.toContain(secret);
    }
  });

  it('loads nothing and exports nothing without the variables', async () => {
    collector.clear();
    const { exitCode, loaded } = await runService({});

    expect(exitCode).toBe(0);
    expect(loaded).toContain('fastify');
    // prom-client loads the API package, which does nothing by itself.
    expect(loaded.filter((name) => name.startsWith('@opentelemetry/'))).toEqual(['@opentelemetry/api']);
    expect(collector.text()).toBe('');
  });

  it('makes one trace of a request, its statements and its calls, without private data', async () => {
    collector.clear();
    const child = start(['--input-type=module', '-e', RELAY], {
      ...collector.variables,
      DATABASE_URL: database.url,
      LISTENER: `${collector.url}/listener/${CANARY}?token=${CANARY}`,
      OTEL_SERVICE_NAME: 'relay',
    });
    const url = await child.line((text) => (text.startsWith('http') ? text : undefined));
    const response = await fetch(`${url}/relay?private=${CANARY}`, {
      method: 'POST',
      headers: { ...TRACED, baggage: `private=${CANARY}` },
    });
    expect(await child.exit()).toBe(0);

    const spans = collector.spans();
    expect(spans.every(({ traceId }) => traceId === TRACE)).toBe(true);
    const served = spans.find(({ kind }) => kind === SERVER)!;
    expect(served).toMatchObject({ name: 'POST /relay', parentSpanId: CALLER });
    const called = spans.find((span) => attribute(span, 'url.full'))!;
    expect(called).toMatchObject({ kind: CLIENT, parentSpanId: served.spanId });
    expect(attribute(called, 'url.full')).toBe(collector.url);
    const statements = spans.filter((span) => attribute(span, 'db.query.text'));
    expect(statements.map((span) => attribute(span, 'db.query.text'))).toEqual(STATEMENTS);
    expect(statements.map((span) => span.status.code)).toEqual([0, 0, FAILED]);
    for (const span of statements) expect(ancestors(span, spans)).toContain(served.spanId);

    const heard = (await response.json()) as Record<string, string>;
    expect(heard.traceparent).toBe(`00-${TRACE}-${called.spanId}-01`);
    expect(heard.baggage).toBeUndefined();
    expect(collector.text()).toContain('"relay"');
    expect(collector.text()).not.toContain(CANARY);
  });

  it('names an unsupported protocol and does not start', async () => {
    const child = start(['dist/src/main.js'], {
      ...collector.variables,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
      DATABASE_URL: database.url,
    });
    expect(await child.exit()).toBe(1);
    expect(child.errors()).toBe(
      'sluice: OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not allowed; allowed: http/protobuf, http/json\n',
    );
  });
});

/** Two pipelined statements, and one whose error quotes its parameter. */
const STATEMENTS = ['SELECT 1', 'SELECT $1::text', 'SELECT $1::text::uuid'];

/** The packages of the service, imported as it does, in a handler with everything that is traced. */
const RELAY = `
  import { startTracing } from './dist/src/telemetry/tracing.js';
  const tracing = await startTracing(process.env, console);
  const { fastify } = await import('fastify');
  const { default: pg } = await import('pg');
  const { request } = await import('undici');
  const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, pipeline: true });
  const [first, second, third] = ${JSON.stringify(STATEMENTS)};
  const app = fastify();
  app.post('/relay', async () => {
    const client = await pool.connect();
    await Promise.all([client.query(first), client.query(second, ['${CANARY}'])]);
    client.release();
    await pool.query(third, ['${CANARY}']).catch(() => undefined);
    const { body } = await request(process.env.LISTENER, { method: 'POST', body: '${CANARY}' });
    return body.json();
  });
  app.addHook('onResponse', () => setImmediate(async () => {
    await app.close();
    await tracing.stop();
    process.exit();
  }));
  console.log(await app.listen({ port: 0, host: '127.0.0.1' }));
`;

/** Prints the packages in memory when the process exits: all relevant ones are CommonJS. */
const LIST_LOADED = `data:text/javascript,${encodeURIComponent(`
  import { writeSync } from 'node:fs';
  import { Module } from 'node:module';
  const nameOf = (path) => path.split('/node_modules/').at(-1).match(/^(@[^/]+\\/)?[^/]+/)?.[0];
  process.on('exit', () => {
    const names = new Set(Object.keys(Module._cache).map((path) => nameOf(path.replaceAll('\\\\', '/'))));
    writeSync(1, JSON.stringify({ event: 'test.loaded', names: [...names] }) + '\\n');
  });
`)}`;

interface Created {
  readonly key: string;
}

/** Runs the built service: two requests with private data in every place, then SIGTERM. */
async function runService(
  variables: Record<string, string>,
): Promise<{ created: Created; exitCode: number; loaded: string[] }> {
  const child = start(['--import', LIST_LOADED, 'dist/src/main.js'], {
    ...variables,
    DATABASE_URL: database.url,
    API_KEYS: `admin=admin:${ADMIN_KEY}`,
    HOST: '127.0.0.1',
    PORT: '0',
    LOG_FORMAT: 'json',
  });
  const { url } = await child.line(event<{ url: string }>('service.started'));
  await fetch(`${url}/readyz?token=${CANARY}`, { headers: TRACED });
  const response = await fetch(`${url}/v1/api-keys`, {
    method: 'POST',
    headers: { ...TRACED, authorization: `Bearer ${ADMIN_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: `${CANARY}-${randomUUID()}`, scopes: ['read'] }),
  });
  expect(response.status).toBe(201);
  const created = (await response.json()) as Created;
  const listed = child.line(event<{ names: string[] }>('test.loaded'));
  child.stop();
  return { created, exitCode: await child.exit(), loaded: (await listed).names };
}

function event<T>(name: string): (line: string) => T | undefined {
  return (line) => (line.includes(`"event":"${name}"`) ? (JSON.parse(line) as T) : undefined);
}

interface Child {
  /** The first further line for which `wanted` returns something. */
  line<T>(wanted: (line: string) => T | undefined): Promise<T>;
  errors(): string;
  stop(): void;
  exit(): Promise<number>;
}

function start(args: string[], variables: Record<string, string>): Child {
  const { PATH, HOME, TMPDIR } = process.env;
  const env = { PATH, HOME, TMPDIR, ...variables };
  const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] });
  running.add(child.once('close', () => running.delete(child)));
  const exited = once(child, 'close') as Promise<[number]>;
  const lines = createInterface({ input: child.stdout });
  let errors = '';
  child.stderr.on('data', (chunk) => {
    errors += chunk;
  });
  return {
    line: (wanted) =>
      new Promise((resolve, reject) => {
        lines.on('line', (line) => {
          const found = wanted(line);
          if (found !== undefined) resolve(found);
        });
        lines.once('close', () => reject(new Error(`it ended before that line; ${errors}`)));
      }),
    errors: () => errors,
    stop: () => void child.kill('SIGTERM'),
    exit: async () => (await exited)[0],
  };
}

const SERVER = 2;
const CLIENT = 3;
const FAILED = 2;

/** A span as OTLP writes it in JSON. */
interface Span {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly status: { readonly code: number; readonly message?: string };
  readonly attributes: readonly { readonly key: string; readonly value: { readonly stringValue?: string } }[];
}

interface Collector {
  readonly url: string;
  readonly variables: Record<string, string>;
  spans(): Span[];
  /** Every byte that was exported. */
  text(): string;
  clear(): void;
  close(): Promise<void>;
}

/** Accepts spans at /v1/traces; other paths return the headers of the request. */
async function startCollector(): Promise<Collector> {
  let bodies: string[] = [];
  const server = createServer(async (request, response) => {
    const chunks = await request.toArray();
    const exported = request.url === '/v1/traces';
    if (exported) bodies.push(Buffer.concat(chunks).toString());
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(exported ? {} : request.headers));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    variables: { OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' },
    spans: () => bodies.flatMap(spansOf),
    text: () => bodies.join('\n'),
    clear: () => {
      bodies = [];
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function spansOf(body: string): Span[] {
  const { resourceSpans } = JSON.parse(body) as { resourceSpans: { scopeSpans: { spans: Span[] }[] }[] };
  return resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans));
}

function attribute(span: Span, key: string): string | undefined {
  return span.attributes.find((one) => one.key === key)?.value.stringValue;
}

function ancestors(span: Span, spans: readonly Span[]): string[] {
  const parent = spans.find(({ spanId }) => spanId === span.parentSpanId);
  return parent ? [parent.spanId, ...ancestors(parent, spans)] : [];
}

function password(): string {
  return new URL(database.url).password || CANARY;
}
