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

/** However many ask, the metrics are collected this often: that takes milliseconds in which nothing else runs. */
const FRESH_MS = 1_000;

interface Collected {
  readonly at: number;
  readonly text: Promise<Buffer>;
}

/** Every metric is made here: prefix `sluice_`, base units, a name that says its unit. */
@Injectable()
export class Metrics {
  readonly registry = new Registry();
  private last: Collected | undefined;

  constructor() {
    collectDefaultMetrics({ register: this.registry, prefix: 'sluice_' });
  }

  /** The text that Prometheus reads, at most a second old; the same bytes for all who ask meanwhile. */
  text(): Promise<Buffer> {
    if (this.last && performance.now() - this.last.at < FRESH_MS) return this.last.text;
    const collected = { at: performance.now(), text: this.registry.metrics().then(Buffer.from) };
    this.last = collected;
    // One that failed is not kept.
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
