import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
  Optional,
} from '@nestjs/common';
import { feedKindOf } from '../brokers/feed-kinds.ts';
import { SinkError } from '../brokers/sink.ts';
import type { SourceDefinition } from '../brokers/source-definition.ts';
import { doubled, type Loop, type Next } from '../clock/loop.ts';
import { Loops } from '../clock/loops.ts';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { DefinitionsFile } from '../definitions/definitions-file.ts';
import { Ingest } from '../inbox/ingest.ts';
import { MESSAGE_ROUTER, type MessageRouter } from '../inbox/message-router.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { failureOf } from '../webhooks/call-failures.ts';
import { EgressGuard } from '../webhooks/egress-guard.ts';
import { SourceMetrics } from './source-metrics.ts';
import { NotLeased, SourceReader, TooManyRefused } from './source-reader.ts';
import { type Lease, SourcesStore } from './sources-store.ts';

const LEASE_MS = 10_000;
const RENEW_MS = 2_000;
const MAX_REOPEN_MS = 30_000;
/** A feed that ran for this long was a good one: the next failure is the first. */
const HEALTHY_MS = 60_000;

/** A source while this replica tries to read it. */
export interface Running {
  readonly lease: Lease;
  readonly definition: SourceDefinition;
  readonly loop: Loop;
  reader: SourceReader | undefined;
  leasedUntilMs: number;
  failures: number;
  reopenAtMs: number;
}

/** The sources of the file. Replicas with the role `inbox` read them, each source one replica at a time. */
@Injectable()
export class Sources implements OnApplicationBootstrap, BeforeApplicationShutdown {
  readonly running: Running[] = [];

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Pick<Settings, 'roles' | 'bodyLimit'>,
    @Inject(LOG) private readonly log: Log,
    private readonly file: DefinitionsFile,
    private readonly store: SourcesStore,
    private readonly guard: EgressGuard,
    private readonly ingest: Ingest,
    private readonly loops: Loops,
    private readonly metrics: SourceMetrics,
    @Optional() @Inject(MESSAGE_ROUTER) private readonly router: MessageRouter | undefined,
  ) {}

  /** After LISTENERS_FILE was read. */
  async onApplicationBootstrap(): Promise<void> {
    if (!this.settings.roles.includes('inbox')) return;
    for (const { name, definition } of this.file.sources) {
      await this.store.define(name, definition.origin.mode);
      const loop = this.loops.create(`source-${name}`, RENEW_MS, () => this.pass(source));
      const lease = { name, token: randomUUID() };
      const source: Running = {
        ...{ lease, definition, loop, reader: undefined },
        ...{ leasedUntilMs: 0, failures: 0, reopenAtMs: 0 },
      };
      this.running.push(source);
      loop.start();
    }
  }

  /** The next reader begins at once. */
  async beforeApplicationShutdown(): Promise<void> {
    await Promise.all(
      this.running.map(async ({ loop, reader, lease }) => {
        await loop.stop();
        await reader?.close();
        await this.store.release(lease).catch(() => undefined);
      }),
    );
  }

  private async pass(source: Running): Promise<Next> {
    const askedAtMs = performance.now();
    const leased = await this.store
      .lease(source.lease, LEASE_MS, `${hostname()}:${process.pid}`)
      .catch((error) => {
        if (performance.now() > source.leasedUntilMs) void source.reader?.close().catch(() => undefined);
        throw error;
      });
    if (!leased) {
      await source.reader?.close();
      return 'idle';
    }
    source.leasedUntilMs = askedAtMs + LEASE_MS;
    if (!source.reader && askedAtMs >= source.reopenAtMs) this.open(source, leased.position ?? undefined);
    return 'idle';
  }

  private open(source: Running, position: Parameters<SourceReader['run']>[0]): void {
    const { lease, definition } = source;
    const { store, guard, settings, metrics } = this;
    const reader = new SourceReader(
      lease,
      definition,
      {
        ...{ store, guard, target: this.router ?? this.ingest, maxBytes: settings.bodyLimit },
        warn: (detail) =>
          this.log.warn(
            { event: 'sources.warning', source: lease.name, detail },
            'a source reports something unusual',
          ),
        count: (outcome, by) => metrics.count(lease.name, outcome, by),
      },
      () => performance.now() < source.leasedUntilMs,
    );
    source.reader = reader;
    const startedAtMs = performance.now();
    void reader.run(position).catch(async (error) => {
      const wasClosed = reader.isClosed;
      await reader.close().catch(() => undefined);
      source.reader = undefined;
      if (wasClosed || error instanceof NotLeased) return;
      if (performance.now() - startedAtMs > HEALTHY_MS) source.failures = 0;
      await this.failed(source, error).catch(() => undefined);
    });
  }

  private async failed(source: Running, error: unknown): Promise<void> {
    source.failures += 1;
    const waitMs = Math.min(MAX_REOPEN_MS, doubled(RENEW_MS, source.failures));
    source.reopenAtMs = performance.now() + waitMs;
    const { name } = source.lease;
    const detail =
      error instanceof TooManyRefused ? error.message : await this.reasonOf(error, source.definition);
    this.metrics.failed(name);
    this.log.warn(
      { event: 'sources.failed', source: name, detail, retryInMs: waitMs },
      'a source cannot be read',
    );
    await this.store.setState(source.lease, error instanceof TooManyRefused ? 'full' : 'failing', detail);
  }

  private async reasonOf(error: unknown, { origin }: SourceDefinition): Promise<string> {
    if (error instanceof SinkError) return `${error.failure.reason}: ${error.failure.detail}`;
    const kind = await feedKindOf(origin.mode);
    const { reason, detail } = kind.failureOf(error) ?? failureOf(error, true);
    return detail ? `${reason}: ${detail}` : reason;
  }
}
