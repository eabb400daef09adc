import { Injectable } from '@nestjs/common';
import type { Histogram } from 'prom-client';
import { Metrics } from '../telemetry/metrics.ts';
import type { ClosedFor } from './connections.ts';
import type { ProblemName } from './problems.ts';

/** What is called: by method and path, as routes are declared. */
export interface Called {
  readonly method: string;
  readonly route: string;
}

@Injectable()
export class HttpMetrics {
  private readonly seconds;
  private readonly problems;
  private readonly connectionsClosed;
  private readonly known = new Map<string, Histogram.Internal<'method' | 'route' | 'status'>>();
  private readonly watchers: (Called & { tell(problem: ProblemName): void })[] = [];

  constructor(private readonly metrics: Metrics) {
    this.seconds = metrics.histogram({
      name: 'http_request_seconds',
      help: 'From the first byte of a request to the end of its answer, by route and class of status.',
      labelNames: ['method', 'route', 'status'],
      buckets: [0.005, 0.025, 0.1, 0.5, 1, 5, 30],
    });
    this.problems = metrics.counter({
      name: 'http_problems_total',
      help: 'Requests answered with a problem, by its name.',
      labelNames: ['problem'],
    });
    this.connectionsClosed = metrics.counter({
      name: 'http_connections_closed_total',
      help: 'Connections the service closed: `pipelined` (too many requests waiting on it), `stalled` (what was written was not read), `limit` (refused: CONNECTIONS_LIMIT).',
      labelNames: ['reason'],
    });
    for (const reason of ['pipelined', 'stalled', 'limit'] as const)
      this.connectionsClosed.inc({ reason }, 0);
  }

  countConnections(open: () => number): void {
    this.metrics.gauge({
      name: 'http_connections',
      help: 'Connections that are open.',
      collect() {
        this.set(open());
      },
    });
  }

  closed(reason: ClosedFor): void {
    this.connectionsClosed.inc({ reason });
  }

  /** Problems of this route and of those below it, whether before its handler, in it or after it. */
  watch(called: Called, tell: (problem: ProblemName) => void): void {
    this.watchers.push({ ...called, tell });
  }

  /** Undefined: the request never became one. */
  refused(problem: ProblemName, called: Called | undefined): void {
    this.problems.inc({ problem });
    for (const { method, route, tell } of this.watchers)
      if (called?.method === method && `${called.route}/`.startsWith(`${route}/`)) tell(problem);
  }

  answered({ method, route }: Called, statusCode: number, milliseconds: number): void {
    const status = `${Math.floor(statusCode / 100)}xx`;
    const name = `${method} ${route} ${status}`;
    let seconds = this.known.get(name);
    if (!seconds) {
      seconds = this.seconds.labels({ method, route, status });
      this.known.set(name, seconds);
    }
    seconds.observe(milliseconds / 1000);
  }
}
