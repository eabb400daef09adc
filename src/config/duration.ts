const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** "250ms", "30s", "5m", "2h", "7d" → milliseconds; undefined for anything else. */
export function parseDuration(text: string): number | undefined {
  const match = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h|d)$/.exec(text.trim());
  if (!match) return undefined;
  return Math.round(Number(match[1]) * UNITS[match[2] as keyof typeof UNITS]);
}

/** The shortest way to write a duration: 90_000 → "90s", 7_200_000 → "2h". */
export function formatDuration(milliseconds: number): string {
  for (const unit of ['d', 'h', 'm', 's'] as const) {
    if (milliseconds >= UNITS[unit] && milliseconds % UNITS[unit] === 0)
      return `${milliseconds / UNITS[unit]}${unit}`;
  }
  return `${milliseconds}ms`;
}
