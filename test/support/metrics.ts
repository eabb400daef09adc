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
