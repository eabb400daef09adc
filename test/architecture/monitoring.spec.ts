import { readdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { STANDBY_STATES } from '../../src/database/replication.ts';
import { PROBLEMS } from '../../src/http/problems.ts';
import type { Failure } from '../../src/inbox/processing/failures.ts';
import type { Stage as LaneStage } from '../../src/lanes/lane-metrics.ts';
import type { ListenerState } from '../../src/listeners/listener.ts';
import type { SentDelivery } from '../../src/outbox/settle/delivery-result.ts';
import { STAGES } from '../../src/upkeep/dead-letters/dead-letter-filter.ts';
import { readQuery } from '../support/promql.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

const ROOT = resolve(import.meta.dirname, '../..');
/** What Prometheus adds to everything it scrapes. */
const ADDED = ['instance', 'job'];

interface Rule {
  alert: string;
  expr: string;
  labels: { severity: string };
  annotations: { summary: string; runbook_url: string };
}
interface Panel {
  title: string;
  type: string;
  targets?: { expr: string; legendFormat: string }[];
  gridPos: { x: number; y: number; w: number; h: number };
}

const rules: Rule[] = parse(read('deploy/prometheus/alerts.yaml')).groups.flatMap(
  ({ rules }: { rules: Rule[] }) => rules,
);
const dashboard = JSON.parse(read('deploy/grafana/sluice.json'));
const panels: Panel[] = dashboard.panels.filter(({ type }: Panel) => type !== 'row');
const queries = panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => [title, expr] as const),
);
const variables: string[] = dashboard.templating.list
  .slice(1)
  .map(({ query }: { query: { query: string } }) => query.query);

/** All of them: the compiler finds one that is missing or too many. */
const namesOf = <Name extends string>(names: Record<Name, true>) => Object.keys(names);

/** The literals of the statement: it returns no others. */
const observed = [...read('src/upkeep/observation/observation.sql.ts').matchAll(/'([a-z-]+)'/g)].map(
  ([, value]) => value!,
);

/** The possible values of a label, for all metrics or for one, besides those present from the start. */
const VALUES: Record<string, Record<string, readonly string[]>> = {
  stage: {
    any: namesOf<LaneStage>({ inbox: true, outbox: true }),
    sluice_dead_letters: STAGES,
  },
  status: {
    sluice_backlog: observed,
    sluice_backlog_oldest_age_seconds: observed,
  },
  outcome: {
    sluice_deliveries_attempted_total: namesOf<SentDelivery['outcome']['kind']>({
      delivered: true,
      retry: true,
      pause: true,
      dead: true,
    }),
    sluice_pull_leases_total: ['acknowledged', 'retried', 'rejected', 'extended', 'expired', 'returned'],
    sluice_inbox_attempts_failed_total: namesOf<Failure['kind']>({ retry: true, deferred: true, dead: true }),
  },
  reason: { sluice_messages_refused_total: Object.keys(PROBLEMS) },
  state: {
    sluice_listeners: namesOf<ListenerState>({ active: true, paused: true, disabled: true }),
    sluice_database_standbys: STANDBY_STATES,
  },
};

let cluster: TestCluster;
/** Every metric of a running replica, with its labels. */
let exposed: Map<string, string[]>;
/** As the replica exposes them. */
let text: string;

beforeAll(async () => {
  cluster = await TestCluster.open({ METRICS_INTERVAL: '100ms' });
  exposed = (await until(async () => {
    const found = await exposedBy(cluster);
    return found.has('sluice_backlog') ? found : undefined;
  }))!;
  text = (await cluster.replica.call('GET', '/metrics')).text;
});
afterAll(() => cluster.close());

describe('the alerts', () => {
  it('A6 use only metrics and labels that a running replica exposes', () => {
    expect(rules.length).toBeGreaterThan(15);
    expect(rules.flatMap(({ alert, expr }) => faultsOf(expr).map((fault) => `${alert}: ${fault}`))).toEqual(
      [],
    );
  });

  it('use in their texts only labels that their query keeps', () => {
    const faults = rules.flatMap(({ alert, expr, annotations }) => {
      const kept = readQuery(expr).grouped;
      const used = [...annotations.summary.matchAll(/\$labels\.(\w+)/g)].map(([, label]) => label!);
      return used.filter((label) => !kept.includes(label)).map((label) => `${alert}: ${label}`);
    });
    expect(faults).toEqual([]);
  });

  it('each point to a chapter of the runbook that exists', () => {
    expect(rules.flatMap(({ alert, annotations }) => lostLink(annotations.runbook_url, alert))).toEqual([]);
  });

  it('have unique names and a severity for routing', () => {
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
    expect(rules.filter(({ labels }) => !['info', 'warning', 'critical'].includes(labels.severity))).toEqual(
      [],
    );
  });

  it.each([
    ['an unknown metric', 'sum(sluice_backlogs)'],
    ['a label the metric does not have', 'sluice_backlog{state="ready"}'],
    ['a label to group by that it does not have', 'max by (queue) (sluice_backlog)'],
    ['a suffix of a histogram on a gauge', 'rate(sluice_backlog_bucket[5m])'],
    ['a status that is none', 'sluice_backlog{stage="inbox",status=~"ready|waiting"}'],
    ['an outcome that is none', 'sluice_deliveries_attempted_total{outcome!="success"}'],
    ['a stage that is none', 'sluice_dead_letters{stage="queue"}'],
    ['a problem that is none', 'sluice_messages_refused_total{reason="overload"}'],
  ])('are checked so that %s is found', (_fault, query) => {
    expect(faultsOf(query)).toHaveLength(1);
  });

  it('are checked so that invalid PromQL and a missing chapter are found', () => {
    expect(() => readQuery('sum by (a (sluice_backlog)')).toThrow('not PromQL');
    expect(lostLink('docs/operating.md#no-such-chapter', 'x')).toHaveLength(1);
    expect(lostLink('docs/no-such-file.md#dead-letters', 'x')).toHaveLength(1);
  });
});

describe('the documents', () => {
  it('name only metrics and labels that a running replica exposes', () => {
    const files = readdirSync(resolve(ROOT, 'docs')).filter((file) => file.endsWith('.md'));
    const named = ['README.md', ...files.map((file) => `docs/${file}`)].flatMap((path) =>
      // Those of cells exist only with CELLS: test/journeys/cells.spec.ts.
      [...read(path).matchAll(/`(sluice_(?!cell_)[^`*]+)`/g)].map(([, query]) => [path, query!] as const),
    );
    expect(named.length).toBeGreaterThan(15);
    expect(named.flatMap(([path, query]) => faultsOf(query).map((fault) => `${path}: ${fault}`))).toEqual([]);
  });
});

describe('the scaling of workers', () => {
  it('uses a metric that a running replica exposes', () => {
    const text = read('deploy/kubernetes/scaling.yaml');
    const asked = [...text.matchAll(/^ +query: (.+)$/gm)].map(([, query]) => query!);
    expect(asked).toHaveLength(1);
    expect(asked.flatMap(faultsOf)).toEqual([]);
  });
});

describe('the dashboard', () => {
  it('E14 uses only metrics and labels that a running replica exposes', () => {
    expect(queries.length).toBeGreaterThan(30);
    expect(queries.flatMap(([title, expr]) => faultsOf(expr).map((fault) => `${title}: ${fault}`))).toEqual(
      [],
    );
    for (const variable of variables) {
      const [, selector, label] = /^label_values\((.+), (\w+)\)$/.exec(variable)!;
      expect(faultsOf(`max by (${label}) (${selector})`)).toEqual([]);
    }
  });

  it('names in its legends only labels that the query keeps', () => {
    const faults = panels.flatMap(({ title, targets = [] }) =>
      targets.flatMap(({ expr, legendFormat }) => {
        const kept = [...readQuery(expr).grouped, ...ADDED];
        const used = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label!);
        return used.filter((one) => !kept.includes(one)).map((one) => `${title}: ${one}`);
      }),
    );
    expect(faults).toEqual([]);
  });

  it('E10 shows every metric of the service, and no two panels in one place', () => {
    const shown = new Set(
      queries.flatMap(([, expr]) => readQuery(expr).selected.map(({ metric }) => base(metric))),
    );
    const alerted = new Set(
      rules.flatMap(({ expr }) => readQuery(expr).selected.map(({ metric }) => metric)),
    );
    const unseen = [...exposed.keys()].filter(
      (name) => !/^sluice_(nodejs|process)_/.test(name) && !shown.has(name) && !alerted.has(name),
    );
    expect(unseen).toEqual([]);
    const places = panels.map(({ gridPos: { x, y } }) => `${x},${y}`);
    expect(new Set(places).size).toBe(places.length);
  });
});

function faultsOf(expr: string): string[] {
  const { selected, grouped } = readQuery(expr);
  const known = selected.flatMap(({ metric }) => exposed.get(base(metric)) ?? []);
  return [
    ...selected.flatMap(({ metric, labels }) => {
      const has = exposed.get(base(metric));
      if (!has) return [`no replica exposes ${metric}`];
      return labels.filter((label) => !has.includes(label)).map((label) => `${metric} has no ${label}`);
    }),
    ...selected.flatMap(({ metric, values }) =>
      values
        .filter(([label, value]) => exposed.get(base(metric))?.includes(label) && !can(metric, label, value))
        .map(([label, value]) => `no ${label} of ${metric} is ever ${value}`),
    ),
    ...(known.length || selected.every(({ metric }) => exposed.has(base(metric)))
      ? grouped.filter((label) => ![...known, ...ADDED].includes(label)).map((label) => `groups by ${label}`)
      : []),
  ];
}

/** Whether the code can use this value; labels named by users can have any. */
function can(metric: string, label: string, value: string): boolean {
  const possible = VALUES[label]?.[metric] ?? VALUES[label]?.any;
  const shown = new RegExp(`^${metric}\\{(.*,)?${label}="${value}"`, 'm').test(text);
  return shown || ['listener', 'group', 'topic'].includes(label) || possible?.includes(value) === true;
}

/** The metric a sample belongs to. */
function base(sample: string): string {
  const whole = sample.replace(/_(bucket|sum|count)$/, '');
  return exposed.get(whole)?.includes('le') ? whole : sample;
}

/** As the registry declares it, since a metric without samples has no labels. */
async function exposedBy({ replica }: TestCluster): Promise<Map<string, string[]>> {
  const { Metrics } = await import('../../src/telemetry/metrics.ts');
  const { text } = await replica.call('GET', '/metrics');
  const names = [...text.matchAll(/^# TYPE (\w+)/gm)].map(([, name]) => name!);
  const { registry } = replica.app.nest.get(Metrics);
  return new Map(
    names.map((name) => {
      const metric = registry.getSingleMetric(name) as unknown as { labelNames: string[]; buckets?: unknown };
      return [name, [...metric.labelNames, ...(metric.constructor.name === 'Histogram' ? ['le'] : [])]];
    }),
  );
}

function lostLink(link: string, alert: string): string[] {
  const [path, anchor] = link.split('#') as [string, string];
  let text = '';
  try {
    text = read(path);
  } catch {
    return [`${alert}: no file ${path}`];
  }
  const anchors = [...text.matchAll(/^#+ (.+)$/gm)].map(([, title]) =>
    title!
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
  return anchors.includes(anchor) ? [] : [`${alert}: no chapter ${anchor}`];
}

function read(path: string): string {
  return readFileSync(resolve(ROOT, path), 'utf8');
}
