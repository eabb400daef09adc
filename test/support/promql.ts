import { parser } from '@prometheus-io/lezer-promql';

/** One metric selector of a query. */
export interface Selected {
  readonly metric: string;
  readonly labels: readonly string[];
  /** Values that a label is compared with, except Grafana's variables. */
  readonly values: readonly (readonly [label: string, value: string])[];
}

export interface Query {
  readonly selected: readonly Selected[];
  /** Labels it groups by. */
  readonly grouped: readonly string[];
}

/** Parses a query with Prometheus' own grammar; throws at the first syntax error. */
export function readQuery(query: string): Query {
  // Grafana's own variables stand for durations.
  const text = query.replaceAll('$__rate_interval', '5m');
  const selected: { metric: string; labels: string[]; values: [string, string][] }[] = [];
  const grouped: string[] = [];
  let inMatcher = false;
  parser.parse(text).iterate({
    enter(node) {
      const part = text.slice(node.from, node.to);
      if (node.type.isError) throw new Error(`not PromQL at ${node.from}: ${query}`);
      if (node.name === 'VectorSelector') selected.push({ metric: '', labels: [], values: [] });
      if (node.name === 'Identifier') selected.at(-1)!.metric = part;
      if (node.name === 'LabelMatchers') inMatcher = true;
      if (node.name === 'StringLiteral' && inMatcher) {
        const { labels, values } = selected.at(-1)!;
        const compared = part.slice(1, -1).split('|');
        values.push(...compared.filter((value) => !value.startsWith('$')).map(pairWith(labels.at(-1)!)));
      }
      if (node.name === 'LabelName') (inMatcher ? selected.at(-1)!.labels : grouped).push(part);
    },
    leave(node) {
      if (node.name === 'LabelMatchers') inMatcher = false;
    },
  });
  return { selected, grouped };
}

function pairWith(label: string): (value: string) => [string, string] {
  return (value) => [label, value];
}
