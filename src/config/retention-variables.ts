import { parseDuration } from './duration.ts';

/** How long what a name or a pattern means is kept. */
export interface KeptFor {
  readonly name: string;
  readonly ms: number;
}

export const RETENTION_TYPES_FORM = 'patterns and durations: `urn:ekp:events/*=1d,urn:ekp:pings=0s`';
export const RETENTION_QUEUES_FORM = 'queues and durations: `inbox=14d,billing=7d`';

/** `name=duration,…`; undefined when any of them is malformed, or there twice. */
export function parseKeptFor(raw: string): readonly KeptFor[] | undefined {
  const parts = raw.split(',').map((part) => {
    const at = part.lastIndexOf('=');
    const [name, ms] = [part.slice(0, at).trim(), parseDuration(part.slice(at + 1).trim())];
    return at > 0 && name && ms !== undefined ? { name, ms } : undefined;
  });
  const names = new Set(parts.map((part) => part?.name));
  return parts.every((part) => part !== undefined) && names.size === parts.length ? parts : undefined;
}
