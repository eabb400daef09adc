export const SCOPES = ['produce', 'consume', 'read', 'admin'] as const;
export type Scope = (typeof SCOPES)[number];

export interface ConfiguredKey {
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** sk_<id>_<secret> */
  readonly key: string;
}

export const API_KEYS_FORM =
  '`name=scope+scope:sk_<id>_<secret>,…` (scopes: produce, consume, read, admin; secret: 8 characters or more)';

const ENTRY = /^([A-Za-z0-9][\w.-]{0,62})=([a-z+]+):(sk_[A-Za-z0-9]{1,32}_[\w-]{8,200})$/;

/** Undefined when any entry is malformed, or two share a name or a key id. */
export function parseApiKeys(raw: string): readonly ConfiguredKey[] | undefined {
  const keys: ConfiguredKey[] = [];
  for (const entry of raw.split(',')) {
    const match = ENTRY.exec(entry.trim());
    if (!match) return undefined;
    const scopes = match[2]!.split('+');
    if (!scopes.every(isScope)) return undefined;
    keys.push({ name: match[1]!, scopes, key: match[3]! });
  }
  const ids = new Set(keys.map(({ key }) => key.split('_')[1]));
  const names = new Set(keys.map(({ name }) => name));
  return ids.size === keys.length && names.size === keys.length ? keys : undefined;
}

function isScope(text: string): text is Scope {
  return (SCOPES as readonly string[]).includes(text);
}
