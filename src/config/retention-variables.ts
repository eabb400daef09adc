import { parseDuration } from './duration.ts';

/** A retention for one queue, or for the types that match a pattern. */
export interface KeptFor {
  readonly name: string;
  readonly ms: number;
}

export const RETENTION_TYPES_FORM = 'patterns and durations: `urn:ekp:events/*=1d,urn:ekp:pings=0s`';
export const RETENTION_QUEUES_FORM = 'queues and durations: `inbox=14d,crm=7d,group/billing=7d`';

/** Parses `name=duration,…`; returns undefined if an entry is malformed or a name is used twice. */
export function parseKeptFor(raw: string): readonly KeptFor[] | undefined {
  const parts = raw.split(',').map((part) => {
    const at = part.lastIndexOf('=');
    const [name, ms] = [part.slice(0, at).trim(), parseDuration(part.slice(at + 1).trim())];
    return at > 0 && name && ms !== undefined ? { name, ms } : undefined;
  });
  const names = new Set(parts.map((part) => part?.name));
  return parts.every((part) => part !== undefined) && names.size === parts.length ? parts : undefined;
}
