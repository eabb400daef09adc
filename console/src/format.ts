/** Numbers with their units, as short as they can be read. Pure. */

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

export function count(value: number): string {
  return whole.format(value);
}

/** For small boxes: 12,345 → 12.3k. */
export function shortCount(value: number): string {
  if (value < 10_000) return whole.format(value);
  return value < 1_000_000 ? `${tenth.format(value / 1_000)}k` : `${tenth.format(value / 1_000_000)}M`;
}

export function perSecond(value: number): string {
  if (value === 0) return '0/s';
  return `${value < 0.1 ? '<0.1' : value < 100 ? tenth.format(value) : shortCount(Math.round(value))}/s`;
}

export function percent(ratio: number | null | undefined): string {
  if (ratio === null || ratio === undefined) return '–';
  // 99.96 % is not "100 %": somebody's delivery failed.
  const value = ratio < 1 && ratio > 0.999 ? 99.9 : ratio * 100;
  return `${tenth.format(value)} %`;
}

export function milliseconds(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : duration(value / 1_000);
}

export function duration(seconds: number): string {
  if (seconds === 0) return '0 s';
  if (seconds < 1) return `${Math.max(1, Math.round(seconds * 1_000))} ms`;
  if (seconds < 10) return `${tenth.format(seconds)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5_400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129_600) return `${Math.round(seconds / 3_600)} h`;
  return `${whole.format(Math.round(seconds / 86_400))} d`;
}

/** Relative to now: "12 s ago", "in 3 min". */
export function relative(at: number, now: number): string {
  const seconds = Math.round((now - at) / 1_000);
  if (Math.abs(seconds) < 2) return 'just now';
  return seconds > 0 ? `${duration(seconds)} ago` : `in ${duration(-seconds)}`;
}

export function bytes(value: number): string {
  if (value < 1_024) return `${whole.format(value)} B`;
  return value < 1_048_576 ? `${tenth.format(value / 1_024)} KiB` : `${tenth.format(value / 1_048_576)} MiB`;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** An exact time for a person, in the zone of the browser and in UTC. */
export function exactTime(at: string): string {
  const date = new Date(at);
  const local = date.toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
  return `${local} (${at})`;
}
