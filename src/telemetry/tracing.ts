import { subscribe } from 'node:diagnostics_channel';
import type { Resource } from '@opentelemetry/resources';
import type { SpanExporter, SpanProcessor } from '@opentelemetry/sdk-trace-node';
import type { FastifyInstance } from 'fastify';
import { SettingsError } from '../config/settings.ts';
import { VERSION } from '../version.ts';
import type { Log } from './logger.ts';

type Environment = Readonly<Record<string, string | undefined>>;

export interface Tracing {
  /** Sends what was recorded and not sent yet; never fails, never takes longer than STOP_WITHIN_MS. */
  stop(): Promise<void>;
}

/** A collector that hangs must not turn a clean drain into a killed one. */
const STOP_WITHIN_MS = 3_000;

/** OpenTelemetry's own variables switch it on; without them not one of its packages is loaded. */
export function tracingWanted(environment: Environment): boolean {
  if (environment.OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true') return false;
  const exporter = environment.OTEL_TRACES_EXPORTER?.trim();
  if (exporter) return exporter !== 'none';
  return Boolean(environment.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || environment.OTEL_EXPORTER_OTLP_ENDPOINT);
}

/**
 * Records incoming requests, the statements they run and every outgoing call; W3C `traceparent` in and out.
 *
 * Must run before `pg` and `fastify` are loaded for the first time: they are CommonJS, and what hooks them is
 * their inner `require`. Nothing we trace is an ES module that would need a loader hook (undici speaks through
 * a diagnostics channel), so there is none: tried on Node 20, 22, 24 and 26, kept by test/journeys/tracing.spec.ts.
 *
 * Endpoint, headers, sampler, limits and resource attributes are read by the packages from OTEL_* themselves.
 * The parts of the SDK are put together here because the package that does it, sdk-node, brings over 40 more.
 */
export async function startTracing(environment: Environment, log: Log): Promise<Tracing> {
  await reportTo(log);
  const { NodeTracerProvider, BatchSpanProcessor } = await import('@opentelemetry/sdk-trace-node');
  const { W3CTraceContextPropagator } = await import('@opentelemetry/core');
  const provider = new NodeTracerProvider({
    resource: await resource(),
    spanProcessors: [await discretion(), new BatchSpanProcessor(await exporterOf(environment))],
  });
  // Not the default, which also passes `baggage` on: what a caller tells us is not for a listener to read.
  provider.register({ propagator: new W3CTraceContextPropagator() });
  await instrument();
  await nameByRoute();
  return { stop: () => stopWithin(STOP_WITHIN_MS, provider.shutdown(), log) };
}

/** A collector that does not answer is told in our own form, like everything else. */
async function reportTo(log: Log): Promise<void> {
  const { diag, DiagLogLevel } = await import('@opentelemetry/api');
  const report = (message: string) => log.warn({ event: 'tracing.fault' }, message);
  const ignore = () => undefined;
  diag.setLogger(
    { error: report, warn: report, info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN },
  );
}

async function resource(): Promise<Resource> {
  const { defaultResource, detectResources, envDetector, resourceFromAttributes } = await import(
    '@opentelemetry/resources'
  );
  return defaultResource()
    .merge(resourceFromAttributes({ 'service.name': 'sluice', 'service.version': VERSION }))
    .merge(detectResources({ detectors: [envDetector] }));
}

async function exporterOf(environment: Environment): Promise<SpanExporter> {
  const exporter = environment.OTEL_TRACES_EXPORTER?.trim() || 'otlp';
  if (exporter !== 'otlp') throw notAllowed('OTEL_TRACES_EXPORTER', exporter, 'otlp, none');
  const variable = environment.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL
    ? 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'
    : 'OTEL_EXPORTER_OTLP_PROTOCOL';
  const protocol = environment[variable]?.trim() || 'http/protobuf';
  switch (protocol) {
    case 'http/protobuf':
      return new (await import('@opentelemetry/exporter-trace-otlp-proto')).OTLPTraceExporter();
    case 'http/json':
      return new (await import('@opentelemetry/exporter-trace-otlp-http')).OTLPTraceExporter();
    default:
      throw notAllowed(variable, protocol, 'http/protobuf, http/json');
  }
}

function notAllowed(variable: string, value: string, allowed: string): SettingsError {
  return new SettingsError([`${variable}=${value} is not allowed; allowed: ${allowed}`]);
}

/**
 * Statements without their parameters, requests without their query, calls without more than the listener's
 * origin: the rest of a webhook's URL is often its secret.
 */
async function instrument(): Promise<void> {
  const { HttpInstrumentation } = await import('@opentelemetry/instrumentation-http');
  const { PgInstrumentation } = await import('@opentelemetry/instrumentation-pg');
  const { UndiciInstrumentation } = await import('@opentelemetry/instrumentation-undici');
  // Our only client is undici.
  new HttpInstrumentation({
    disableOutgoingRequestInstrumentation: true,
    startIncomingSpanHook: () => ({ 'url.query': undefined }),
  });
  // A statement outside of any span is a loop looking for work, several times a second, for ever.
  new PgInstrumentation({ enhancedDatabaseReporting: false, requireParentSpan: true });
  new UndiciInstrumentation({
    startSpanHook: ({ origin }) => ({ 'url.full': origin, 'url.path': undefined, 'url.query': undefined }),
  });
}

/** An error's message quotes values (`invalid input syntax for type uuid: "…"`); its type and code stay. */
async function discretion(): Promise<SpanProcessor> {
  const { SpanStatusCode } = await import('@opentelemetry/api');
  const nothing = async () => undefined;
  return {
    onStart: () => undefined,
    onEnding(span) {
      if (span.status.message) span.setStatus({ code: SpanStatusCode.ERROR });
    },
    onEnd: () => undefined,
    forceFlush: nothing,
    shutdown: nothing,
  };
}

/** `POST /v1/listeners/:id` instead of `POST`: only Fastify knows which route a request took. */
async function nameByRoute(): Promise<void> {
  const { trace } = await import('@opentelemetry/api');
  subscribe('fastify.initialization', (message) => {
    const { fastify } = message as { fastify: FastifyInstance };
    fastify.addHook('onRequest', async ({ method, routeOptions: { url } }) => {
      if (url) trace.getActiveSpan()?.setAttribute('http.route', url).updateName(`${method} ${url}`);
    });
  });
}

async function stopWithin(milliseconds: number, stopped: Promise<void>, log: Log): Promise<void> {
  const tooLate = new Promise<never>((_, reject) => {
    setTimeout(reject, milliseconds, new Error(`no answer within ${milliseconds} ms`)).unref();
  });
  try {
    await Promise.race([stopped, tooLate]);
  } catch (error) {
    log.warn({ event: 'tracing.lost', error }, 'the last spans did not reach the collector');
  }
}
