import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './paths.mjs';
import { barPlot } from './plot.mjs';

export function table(results) {
  const rows = results.map((line) => [
    line.name,
    amount(line.ours),
    amount(line.reference),
    line.unit,
    line.ratio === null ? '–' : `${line.ratio}`,
    `${line.spread[0]}–${line.spread[1]}`,
    `${line.cpuRatio ?? ''}`,
    line.target === undefined ? '' : `${line.atMost ? '≤' : '≥'} ${line.target}`,
    line.verdict ?? '',
    line.referenceName,
  ]);
  const head = [
    'scenario',
    'ours',
    'reference',
    'unit',
    'ratio',
    'rounds',
    'by CPU',
    'target',
    'verdict',
    'against',
  ];
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column].length)));
  const lines = [head, widths.map((width) => '-'.repeat(width)), ...rows];
  return lines
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** One plot per scenario and unit: Sluice and each reference of the same run, or pairs where Sluice has more than one value. */
export function writePlots(results, folder = join(ROOT, 'docs/plots')) {
  mkdirSync(folder, { recursive: true });
  for (const [name, lines] of grouped(results, 'name')) {
    for (const [index, [unit, same]] of [...grouped(lines, 'unit')].entries()) {
      const file = index === 0 ? name : `${name}-${unit.replaceAll(/[^a-z]+/gi, '-')}`;
      const title = index === 0 ? name : `${name}, ${unit}`;
      writeFileSync(join(folder, `${file}.svg`), barPlot({ title, unit, bars: barsOf(same) }));
    }
  }
}

function barsOf(lines) {
  const ours = ({ ours }) => ({ label: 'Sluice', value: ours, ours: true });
  const theirs = ({ referenceName, reference }) => ({ label: referenceName, value: reference });
  if (grouped(lines, 'ours').size === 1) return [ours(lines[0]), ...lines.map(theirs)];
  return lines.flatMap((line) => [ours(line), theirs(line)]);
}

function grouped(lines, field) {
  const groups = new Map();
  for (const line of lines) groups.set(line[field], [...(groups.get(line[field]) ?? []), line]);
  return groups;
}

function amount(value) {
  return value.toLocaleString('en-US');
}
