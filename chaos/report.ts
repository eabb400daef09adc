import type { FaultRunResult } from './fault-run.ts';
import { FAULTS, type Fault } from './schedule.ts';
import { CHECKS, type Violation } from './violation.ts';

export function faultTable(
  faults: readonly Fault[],
  injections: Record<string, number>,
  skipped: Record<string, string>,
): string {
  const rows = (Object.keys(FAULTS) as Fault[]).map((fault) => [
    fault,
    skipped[fault]
      ? `skipped: ${skipped[fault]}`
      : !faults.includes(fault)
        ? 'not selected'
        : FAULTS[fault].weight === 0
          ? 'whole run'
          : `${injections[fault] ?? 0} ×`,
    FAULTS[fault].description,
  ]);
  return table(['fault', 'injected', 'what happens'], rows);
}

export function checkTable(violations: readonly Violation[]): string {
  const rows = CHECKS.map((check) => {
    const found = violations.filter((one) => one.check === check);
    return [check, found.length === 0 ? 'held' : `VIOLATED ${found.length} ×`];
  });
  return table(['check', 'result'], rows);
}

export function countTable({ counts }: FaultRunResult): string {
  return table(
    ['counted', 'n'],
    Object.entries(counts).map(([name, n]) => [name, n.toLocaleString('en-US')]),
  );
}

/** As Markdown, to be pasted into the docs. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column]!.length)));
  const line = (row: readonly string[]) =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column]!)).join(' | ')} |`;
  return [line(head), `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`, ...rows.map(line)].join(
    '\n',
  );
}
