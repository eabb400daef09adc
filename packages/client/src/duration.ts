const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Milliseconds, or a text such as `'250ms'`, `'30s'`, `'5m'`, `'2h'`, `'7d'`. */
export type Duration = number | `${number}${keyof typeof UNITS}`;

/** Throws a TypeError that names the option. */
export function milliseconds(duration: Duration, option: string): number {
  const value = typeof duration === 'number' ? duration : parsed(duration);
  if (value !== undefined && Number.isFinite(value) && value >= 0) return value;
  throw new TypeError(
    `${option} must be a duration such as '250ms', '30s' or '5m', not ${JSON.stringify(duration)}`,
  );
}

function parsed(text: unknown): number | undefined {
  const match = typeof text === 'string' ? /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text) : null;
  return match ? Number(match[1]) * UNITS[match[2] as keyof typeof UNITS] : undefined;
}
