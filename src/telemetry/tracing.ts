import { subscribe } from 'node:diagnostics_channel';
import type { Resource } from '@opentelemetry/resources';
import type { SpanExporter, SpanProcessor } from '@opentelemetry/sdk-trace-node';
import type { FastifyInstance } from 'fastify';
import { SettingsError } from '../config/settings.ts';
import { VERSION } from '../version.ts';
import type { Log } from './logger.ts';

type Environment = Readonly<Record<string, string | undefined>>;

export interface Tracing {
  /** Sends the spans that were not sent yet; never rejects, never takes longer than STOP_WITHIN_MS. */
  stop(): Promise<void>;
}

/** A collector that hangs must not delay a clean drain until the process is killed. */
const STOP_WITHIN_MS = 3_000;

/** Tracing is switched on by OpenTelemetry's standard variables; without them none of its packages is loaded. */
export function tracingWanted(environment: Environment): boolean {
  if (environment.OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true') return false;
  const exporter = environment.OTEL_TRACES_EXPORTER?.trim();
  if (exporter) return exporter !== 'none';
  return Boolean(environment.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || environment.OTEL_EXPORTER_OTLP_ENDPOINT);
}

/**
 * Records incoming requests, the statements they run and every outgoing call; W3C `traceparent` in and out.
 *
 * Must run before `pg` and `fastify` are loaded for the first time: they are CommonJS, and the instrumentation hooks into
 * their `require`. No traced package is an ES module that would need a loader hook (undici reports through a diagnostics
 * channel), so there is none: tried on Node 20, 22, 24 and 26, and checked by test/journeys/tracing.spec.ts.
 *
 * The packages themselves read endpoint, headers, sampler, limits and resource attributes from OTEL_*. The SDK is
 * assembled here because the package that does it, sdk-node, brings over 40 further packages.
 */
export async function startTracing(environment: Environment, log: Log): Promise<Tracing> {
  await reportTo(log);
  const { NodeTracerProvider, BatchSpanProcessor } = await import('@opentelemetry/sdk-trace-node');
  const { W3CTraceContextPropagator } = await import('@opentelemetry/core');
  const provider = new NodeTracerProvider({
    resource: await resource(),
    spanProcessors: [await messageRemover(), new BatchSpanProcessor(await exporterOf(environment))],
  });
  // Not the default, which also propagates `baggage`: listeners must not see what a producer sent along.
  provider.register({ propagator: new W3CTraceContextPropagator() });
  await instrument();
  await nameByRoute();
  return { stop: () => stopWithin(STOP_WITHIN_MS, provider.shutdown(), log) };
}

/** Logs problems of OpenTelemetry, such as an unreachable collector, in the format of the service. */
async function reportTo(log: Log): Promise<void> {
  const { diag, DiagLogLevel } = await import('@opentelemetry/api');
  const report = (message: string) => log.warn({ event: 'tracing.failed' }, message);
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
  // A statement outside of any span belongs to a loop that polls for work several times a second.
  new PgInstrumentation({ enhancedDatabaseReporting: false, requireParentSpan: true });
  new UndiciInstrumentation({
    startSpanHook: ({ origin }) => ({ 'url.full': origin, 'url.path': undefined, 'url.query': undefined }),
  });
}

/** Removes error messages, which quote values (`invalid input syntax for type uuid: "…"`); type and code stay. */
async function messageRemover(): Promise<SpanProcessor> {
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

/** Names a span `POST /v1/listeners/:id` instead of `POST`: only Fastify knows the route of a request. */
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
  const timeout = new Promise<never>((_, reject) => {
    setTimeout(reject, milliseconds, new Error(`no reply within ${milliseconds} ms`)).unref();
  });
  try {
    await Promise.race([stopped, timeout]);
  } catch (error) {
    log.warn({ event: 'tracing.lost', error }, 'the last spans did not reach the collector');
  }
}
