import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Registry } from 'prom-client';
import { runCli } from '../../src/cli/cli.ts';
import { ROOT } from '../support/built-service.ts';

/** What `sluice <arguments>` prints. */
async function printed(...given: string[]): Promise<string> {
  let text = '';
  const write = (part: string) => {
    text += part;
  };
  await runCli(given, {
    environment: {},
    stopping: new AbortController().signal,
    stdin: process.stdin,
    terminal: { write, writeError: write, isTty: false, isErrorTty: false },
  });
  return text;
}

/** Every command with its help, as the command line prints it. */
export async function commandsReference(): Promise<string> {
  const overview = await printed('--help');
  const commands = [...overview.matchAll(/^ {2}([a-z-]+) {2,}\S/gm)].map(([, name]) => name!);
  const sections = [`\`\`\`text\n${overview}\`\`\``];
  for (const name of commands)
    sections.push(`## ${name}\n\n\`\`\`text\n${await printed(name, '--help')}\`\`\``);
  return sections.join('\n\n');
}

interface Declared {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly labelNames: readonly string[];
}

/** Areas of metrics, by the beginning of the name without `sluice_`; the first that fits. */
const AREAS: readonly (readonly [string, RegExp])[] = [
  ['HTTP', /^http_/],
  ['Accepting messages', /^(messages_(accepted|duplicate|refused)|ingest)_/],
  ['Processing messages', /^(messages_(ended|unhandled|sent)|message|inbox)_/],
  ['Deliveries and listeners', /^(deliver|listener|circuit|pull)/],
  ['Topics and groups', /^(topic|group)/],
  ['Sources', /^source/],
  ['Read models and rebuilds', /^(read|rebuild)/],
  ['What waits in the database', /^(backlog|dead_letters$|holds$|messages_expiring|observed|inconsistent)/],
  ['Leases', /^(leases|fenced|taken_over)/],
  ['Upkeep', /^(retention|history|schedule|dead_letters_|revive|discard)/],
  ['Loops and the database', /./],
];

/** Every metric of the service's own that a replica declares, by area. */
export async function metricsReference(registry: Registry): Promise<string> {
  const own = (await declared(registry)).filter(({ name }) => !/^sluice_(nodejs|process)_/.test(name));
  return AREAS.flatMap(([area]) => {
    const metrics = own.filter(({ name }) => areaOf(name) === area);
    return metrics.length ? [sectionOf(area, metrics)] : [];
  }).join('\n\n');
}

function areaOf(name: string): string {
  return AREAS.find(([, pattern]) => pattern.test(name.replace('sluice_', '')))![0];
}

function sectionOf(area: string, metrics: readonly Declared[]): string {
  const rows = metrics
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map((metric) =>
      [
        `\`${metric.name}\``,
        metric.type,
        unitOf(metric),
        labelsOf(metric),
        metric.help.replaceAll('|', '\\|'),
      ]
        .map((cell) => `| ${cell} `)
        .join(''),
    );
  return [`## ${area}`, '', '| name | type | unit | labels | meaning |', '|---|---|---|---|---|']
    .concat(rows.map((row) => `${row}|`))
    .join('\n');
}

async function declared(registry: Registry): Promise<Declared[]> {
  const metrics = (await registry.getMetricsAsJSON()) as { name: string; help: string; type: unknown }[];
  return metrics.map(({ name, help, type }) => {
    const { labelNames } = registry.getSingleMetric(name) as unknown as { labelNames: readonly string[] };
    return { name, help, type: String(type), labelNames };
  });
}

function unitOf({ name }: Declared): string {
  if (/_timestamp_seconds$/.test(name)) return 'Unix time in seconds';
  if (/_seconds(_total)?$/.test(name)) return 'seconds';
  if (/_(open|paused|survives_node_loss)$/.test(name)) return '0 or 1';
  return /_bytes(_total)?$/.test(name) ? 'bytes' : 'count';
}

function labelsOf({ labelNames }: Declared): string {
  return labelNames.length ? labelNames.map((label) => `\`${label}\``).join(', ') : '–';
}

/** The part of a page between `<!-- generated -->` and `<!-- /generated -->`. */
const GENERATED = /(?<=<!-- generated -->\n\n)[\s\S]*?(?=\n\n<!-- \/generated -->)/;

export function generatedPartOf(page: string): string | undefined {
  return GENERATED.exec(readFileSync(join(ROOT, page), 'utf8'))?.[0];
}

export function writeGeneratedPart(page: string, text: string): void {
  const path = join(ROOT, page);
  writeFileSync(
    path,
    readFileSync(path, 'utf8').replace(GENERATED, () => text),
  );
}
