import { Injectable } from '@nestjs/common';
import type { Histogram } from 'prom-client';
import { Metrics } from '../telemetry/metrics.ts';
import type { CloseReason } from './connections.ts';
import type { ProblemName } from './problems.ts';

/** A route by its method and declared path. */
export interface CalledRoute {
  readonly method: string;
  readonly route: string;
}

@Injectable()
export class HttpMetrics {
  private readonly seconds;
  private readonly problems;
  private readonly connectionsClosed;
  private readonly timers = new Map<string, Histogram.Internal<'method' | 'route' | 'status'>>();
  private readonly problemListeners: (CalledRoute & { callback(problem: ProblemName): void })[] = [];

  constructor(private readonly metrics: Metrics) {
    this.seconds = metrics.histogram(
      'http_request_seconds',
      'Time from the first byte of a request to the end of its response, by route and status class.',
      [0.005, 0.025, 0.1, 0.5, 1, 5, 30],
      ['method', 'route', 'status'],
    );
    this.problems = metrics.counter(
      'http_problems_total',
      'Requests that failed with a problem, by its name.',
      ['problem'],
    );
    this.connectionsClosed = metrics.counterOf(
      'http_connections_closed_total',
      'Connections closed by the service, by reason: `pipelined` (its requests, or those of all, hold too much memory), `stalled` (client does not read), `limit` (rejected: CONNECTIONS_LIMIT).',
      'reason',
      ['pipelined', 'stalled', 'limit'],
    );
  }

  countConnections(open: () => number): void {
    this.metrics.gauge('http_connections', 'Open connections.', {
      collect() {
        this.set(open());
      },
    });
  }

  connectionClosed(reason: CloseReason): void {
    this.connectionsClosed.inc({ reason });
  }

  /** Calls back for every problem of this route and the routes below it, whether raised before, in or after the handler. */
  onProblem(route: CalledRoute, callback: (problem: ProblemName) => void): void {
    this.problemListeners.push({ ...route, callback });
  }

  /** `called` is undefined if the input could not be parsed as a request. */
  problem(problem: ProblemName, called: CalledRoute | undefined): void {
    this.problems.inc({ problem });
    for (const { method, route, callback } of this.problemListeners)
      if (called?.method === method && `${called.route}/`.startsWith(`${route}/`)) callback(problem);
  }

  response({ method, route }: CalledRoute, statusCode: number, milliseconds: number): void {
    const status = `${Math.floor(statusCode / 100)}xx`;
    const name = `${method} ${route} ${status}`;
    let seconds = this.timers.get(name);
    if (!seconds) {
      seconds = this.seconds.labels({ method, route, status });
      this.timers.set(name, seconds);
    }
    seconds.observe(milliseconds / 1000);
  }
}
