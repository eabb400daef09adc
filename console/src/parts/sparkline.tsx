import type { Series } from '../api-types.ts';
import { count } from '../format.ts';

const WIDTH = 120;
const HEIGHT = 28;

/** The course of a count. Gaps are times at which no replica reported: not zero, unknown. */
export function Sparkline({
  of,
  label,
  wide = false,
}: {
  of: Series | undefined;
  label: string;
  wide?: boolean;
}) {
  const values = of ?? [];
  const max = Math.max(1, ...values.map((value) => value ?? 0));
  const total = values.reduce<number>((sum, value) => sum + (value ?? 0), 0);
  const text = of
    ? `${label}, last 15 minutes: ${count(total)} in all, at most ${count(max)} per step`
    : label;
  return (
    <svg
      class={`sparkline ${wide ? 'wide' : ''} ${total === 0 ? 'flat' : ''}`}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={text}
    >
      <title>{text}</title>
      <line class="sparkline-base" x1="0" x2={WIDTH} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} />
      {runsOf(values).map((run) => (
        <path key={run.start} class="sparkline-area" d={areaOf(run, values.length, max)} />
      ))}
      {runsOf(values).map((run) => (
        <path key={run.start} class="sparkline-line" d={lineOf(run, values.length, max)} />
      ))}
    </svg>
  );
}

interface Run {
  readonly start: number;
  readonly values: readonly number[];
}

function runsOf(values: Series): Run[] {
  const runs: { start: number; values: number[] }[] = [];
  values.forEach((value, index) => {
    if (value === null) return;
    const last = runs.at(-1);
    if (last && last.start + last.values.length === index) last.values.push(value);
    else runs.push({ start: index, values: [value] });
  });
  return runs;
}

function lineOf({ start, values }: Run, steps: number, max: number): string {
  const x = (index: number) => ((start + index) / Math.max(1, steps - 1)) * WIDTH;
  const y = (value: number) => HEIGHT - 1.5 - (value / max) * (HEIGHT - 4);
  const points = values.map(
    (value, index) => `${index ? 'L' : 'M'}${x(index).toFixed(1)} ${y(value).toFixed(1)}`,
  );
  // A single value is a dot.
  return `${points.join('')}${values.length === 1 ? 'h0' : ''}`;
}

function areaOf(run: Run, steps: number, max: number): string {
  const x = (index: number) => (((run.start + index) / Math.max(1, steps - 1)) * WIDTH).toFixed(1);
  return `${lineOf(run, steps, max)}L${x(run.values.length - 1)} ${HEIGHT}L${x(0)} ${HEIGHT}Z`;
}

/** A share of a whole as a bar; the number stands beside it, so the bar itself is decoration. */
export function Bar({ value, max }: { value: number; max: number }) {
  const width = max > 0 ? Math.min(100, (value / max) * 100) : 0;
  return (
    <svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
      <rect class="bar-track" width="100" height="6" />
      <rect class="bar-fill" width={Math.max(value > 0 ? 1.5 : 0, width)} height="6" />
    </svg>
  );
}
