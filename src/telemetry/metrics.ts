import { Injectable } from '@nestjs/common';
import {
  Counter,
  type CounterConfiguration,
  collectDefaultMetrics,
  Gauge,
  type GaugeConfiguration,
  Histogram,
  type HistogramConfiguration,
  Registry,
} from 'prom-client';

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

  counter<T extends string = never>(options: CounterConfiguration<T>): Counter<T> {
    return new Counter({ ...options, name: `sluice_${options.name}`, registers: [this.registry] });
  }

  gauge<T extends string = never>(options: GaugeConfiguration<T>): Gauge<T> {
    return new Gauge({ ...options, name: `sluice_${options.name}`, registers: [this.registry] });
  }

  histogram<T extends string = never>(options: HistogramConfiguration<T>): Histogram<T> {
    return new Histogram({ ...options, name: `sluice_${options.name}`, registers: [this.registry] });
  }
}
