import { parseDuration } from './duration.ts';
import { Refused } from './setting.ts';

/** How long messages whose type matches the pattern are kept in history; `ms` undefined: forever. */
export interface HistoryRule {
  readonly pattern: string;
  readonly ms: number | undefined;
}

export const HISTORY_FORM =
  'patterns and durations, or `forever`: `urn:ekp:events/*=forever,urn:ekp:clicks=365d`';

const FOREVER = 'forever';

/** Parses `pattern=forever,pattern=365d,…`. The first pattern that matches a type counts, so its order matters. */
export function parseHistory(raw: string): readonly HistoryRule[] | Refused {
  const rules: HistoryRule[] = [];
  for (const part of raw.split(',').map((one) => one.trim())) {
    const at = part.lastIndexOf('=');
    const [pattern, kept] = [part.slice(0, at).trim(), part.slice(at + 1).trim()];
    if (at < 1 || !pattern) return new Refused(`"${part}" is not <pattern>=<duration>`);
    const ms = parseDuration(kept);
    if (kept !== FOREVER && !ms)
      return new Refused(`"${kept}" of ${pattern} is neither a duration nor "forever"`);
    if (rules.some((rule) => rule.pattern === pattern)) return new Refused(`${pattern} is given twice`);
    rules.push({ pattern, ms: kept === FOREVER ? undefined : ms });
  }
  return rules;
}
