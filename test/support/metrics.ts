import { expect } from '@jest/globals';
import { Metrics } from '../../src/telemetry/metrics.ts';
import type { TestApp } from './app.ts';

/** The metrics from the registry: `/metrics` itself can be a second behind. */
export function metricsText(replica: TestApp): Promise<string> {
  return replica.app.nest.get(Metrics).registry.metrics();
}

/** The metrics of a replica by the name and labels they are exposed with, without the prefix. */
export async function metricsOf(replica: TestApp): Promise<(name: string) => number> {
  const text = await metricsText(replica);
  const samples = new Map<string, number>();
  for (const line of text.split('\n')) {
    const [, name, value] = /^sluice_(\S+) (\S+)$/.exec(line) ?? [];
    if (name) samples.set(name, Number(value));
  }
  return (name) => samples.get(name) ?? 0;
}

/** By how much each named metric increased during `work`. */
export async function metricIncreases(
  replica: TestApp,
  names: readonly string[],
  work: () => Promise<unknown>,
): Promise<number[]> {
  const before = await metricsOf(replica);
  await work();
  const after = await metricsOf(replica);
  return names.map((name) => after(name) - before(name));
}

/** Scrapes a replica 50 times, which must not collect more than once a second. Returns how often it has collected so far. */
export async function scrapeOften(replica: TestApp): Promise<() => number> {
  let collected = 0;
  replica.app.nest.get(Metrics).gauge('collected', 'Counts how often it is collected.', {
    collect() {
      this.set(++collected);
    },
  });
  const startedAt = performance.now();
  for (const _ of Array.from({ length: 5 }))
    await Promise.all(Array.from({ length: 10 }, () => replica.call('GET', '/metrics')));
  const seconds = Math.ceil((performance.now() - startedAt) / 1_000);
  expect(collected).toBeLessThanOrEqual(seconds);
  return () => collected;
}
