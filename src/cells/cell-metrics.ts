import { AggregatorRegistry, type MetricObject, type Registry } from 'prom-client';
import { Metrics } from '../telemetry/metrics.ts';
import type { Cell } from './cell.ts';
import type { CellsView } from './cells-view.ts';

/** Of the process as a whole: every engine has collected them. */
const OF_THE_PROCESS = /^sluice_(process|nodejs)_/;

export function addCellMetrics(metrics: Metrics, cells: Pick<CellsView, 'all' | 'catalogue'>): void {
  metrics.gauge('cell_up', 'Whether this replica can use each cell.', {
    labelNames: ['cell'],
    collect() {
      for (const { name, state } of cells.all) this.set({ cell: name }, state === 'up' ? 1 : 0);
    },
  });
  metrics.gauge('cell_definitions_current', 'Whether each cell has all definitions of the home cell.', {
    labelNames: ['cell'],
    collect() {
      for (const { name, definitionsCurrent } of cells.all)
        this.set({ cell: name }, definitionsCurrent ? 1 : 0);
    },
  });
  metrics.gauge('cell_slots', 'Slots of each cell, as this replica knows the catalogue.', {
    labelNames: ['cell'],
    collect() {
      const slots = cells.catalogue.all();
      for (const { name } of cells.all)
        this.set({ cell: name }, slots.filter(({ cell }) => cells.catalogue.nameOf(cell) === name).length);
    },
  });
}

/** One text for all engines of this replica; each series has the label `cell`. */
export async function metricsOfAll(cells: readonly Cell[]): Promise<string> {
  const parts = await Promise.all(
    cells.flatMap(({ name, engine }, nth) =>
      engine ? [labelled(engine.nest.get(Metrics).registry, name, nth === 0)] : [],
    ),
  );
  const all = AggregatorRegistry.aggregate(parts) as Registry;
  return all.metrics();
}

async function labelled(registry: Registry, cell: string, isHome: boolean): Promise<MetricObject[]> {
  const metrics = (await registry.getMetricsAsJSON()) as unknown as (MetricObject & {
    values: { labels: Record<string, unknown> }[];
  })[];
  return metrics
    .filter(({ name }) => isHome || !OF_THE_PROCESS.test(name))
    .map((metric) => ({
      ...metric,
      values: metric.values.map((value) => ({
        ...value,
        labels: OF_THE_PROCESS.test(metric.name) ? value.labels : { cell, ...value.labels },
      })),
    })) as unknown as MetricObject[];
}
