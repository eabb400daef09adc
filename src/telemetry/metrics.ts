import { Injectable } from '@nestjs/common';
import {
  Counter,
  collectDefaultMetrics,
  Gauge,
  type GaugeConfiguration,
  Histogram,
  Registry,
} from 'prom-client';

type GaugeOptions<T extends string> = Pick<GaugeConfiguration<T>, 'labelNames' | 'collect'>;

/** Max age of the collected text: collecting takes milliseconds in which nothing else runs, so scrapes share it. */
const FRESH_MS = 1_000;

interface Collected {
  readonly at: number;
  readonly text: Promise<Buffer>;
}

/** Creates every metric of the service: prefix `sluice_`, base units, the unit in the name. */
@Injectable()
export class Metrics {
  readonly registry = new Registry();
  private last: Collected | undefined;

  constructor() {
    collectDefaultMetrics({ register: this.registry, prefix: 'sluice_' });
  }

  /** The text for Prometheus, at most a second old; concurrent scrapes get the same bytes. */
  text(): Promise<Buffer> {
    if (this.last && performance.now() - this.last.at < FRESH_MS) return this.last.text;
    const collected = { at: performance.now(), text: this.registry.metrics().then(Buffer.from) };
    this.last = collected;
    // A failed collection is not cached.
    collected.text.catch(() => {
      if (this.last === collected) this.last = undefined;
    });
    return collected.text;
  }

  counter<T extends string = never>(name: string, help: string, labelNames: readonly T[] = []): Counter<T> {
    return new Counter({ ...this.described(name, help), labelNames: [...labelNames] });
  }

  /** A counter with one label. Its series exist from the start: rate() does not see the first increase of a new one. */
  counterOf<T extends string>(name: string, help: string, label: T, values: readonly string[]): Counter<T> {
    const counter = this.counter(name, help, [label]);
    for (const value of values) counter.labels(value).inc(0);
    return counter;
  }

  gauge<T extends string = never>(name: string, help: string, options: GaugeOptions<T> = {}): Gauge<T> {
    return new Gauge({ ...this.described(name, help), ...options });
  }

  histogram<T extends string = never>(
    name: string,
    help: string,
    buckets: readonly number[],
    labelNames: readonly T[] = [],
  ): Histogram<T> {
    return new Histogram({
      ...this.described(name, help),
      buckets: [...buckets],
      labelNames: [...labelNames],
    });
  }

  private described(name: string, help: string) {
    return { name: `sluice_${name}`, help, registers: [this.registry] };
  }
}
