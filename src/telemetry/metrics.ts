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

/** Every metric is made here: prefix `sluice_`, base units, a name that says its unit. */
@Injectable()
export class Metrics {
  readonly registry = new Registry();

  constructor() {
    collectDefaultMetrics({ register: this.registry, prefix: 'sluice_' });
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
