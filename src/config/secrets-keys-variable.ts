/** A key that encrypts secret columns of the database. */
export interface ConfiguredMasterKey {
  readonly id: string;
  /** 32 bytes in base64. */
  readonly key: string;
}

export const SECRETS_KEYS_FORM = '`id=<base64 of 32 bytes>,…` (such as `k1=$(openssl rand -base64 32)`)';

const ENTRY = /^([A-Za-z0-9][\w-]{0,31})=([A-Za-z0-9+/_-]{43}=?)$/;

/** Returns undefined if an entry is malformed or two entries have the same id. */
export function parseSecretsKeys(raw: string): readonly ConfiguredMasterKey[] | undefined {
  const keys: ConfiguredMasterKey[] = [];
  for (const entry of raw.split(',')) {
    const match = ENTRY.exec(entry.trim());
    if (!match) return undefined;
    keys.push({ id: match[1]!, key: match[2]! });
  }
  return new Set(keys.map(({ id }) => id)).size === keys.length ? keys : undefined;
}
