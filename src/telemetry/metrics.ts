import { Injectable } from '@nestjs/common';
import {
  Counter,
  collectDefaultMetrics,
  Gauge,
  type GaugeConfiguration,
  Histogram,
  Registry,
} from 'prom-client';
import { FreshText } from './fresh-text.ts';

type GaugeOptions<T extends string> = Pick<GaugeConfiguration<T>, 'labelNames' | 'collect'>;

/** Creates every metric of the service: prefix `sluice_`, base units, the unit in the name. */
@Injectable()
export class Metrics {
  readonly registry = new Registry();
  private readonly fresh = new FreshText(() => this.registry.metrics());

  constructor() {
    collectDefaultMetrics({ register: this.registry, prefix: 'sluice_' });
  }

  /** The text for Prometheus. */
  text(): Promise<Buffer> {
    return this.fresh.get();
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
