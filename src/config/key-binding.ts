/** Prefixes of the sources and keys an API key may post for; undefined: all. A key may always post for its own source. */
export interface Binding {
  readonly sources?: readonly string[] | undefined;
  readonly keys?: readonly string[] | undefined;
}

export type BoundField = keyof Binding;

/** Every message is compared with every prefix of its API key. */
export const MAX_PREFIXES = 20;
/** The max lengths of the source and the key of a message. */
const MAX_CHARACTERS = { sources: 512, keys: 256 };
const CONTROL = /[\u0000-\u001f\u007f]/;
const LONE_SURROGATE = /\p{Surrogate}/u;
/** Only the service itself posts for these sources, and each API key for its own. */
const RESERVED = /^urn:sluice:/i;

export function isBound({ sources, keys }: Binding): boolean {
  return sources !== undefined || keys !== undefined;
}

/** Why the value is not a valid prefix, as the end of a sentence. An empty prefix would match everything. */
export function prefixError(field: BoundField, prefix: unknown): string | undefined {
  if (typeof prefix !== 'string' || prefix === '') return 'must be a non-empty string';
  if (prefix.length > MAX_CHARACTERS[field])
    return `must not be longer than ${MAX_CHARACTERS[field]} characters`;
  if (CONTROL.test(prefix) || LONE_SURROGATE.test(prefix))
    return 'must not contain control characters or lone surrogates';
  if (field === 'sources' && RESERVED.test(prefix))
    return 'must not begin with urn:sluice: (an api key always posts for its own source)';
  return undefined;
}

/** Why a key with these scopes cannot be bound: a key with admin could create an unbound key for itself. */
export function scopesError(scopes: readonly string[], binding: Binding): string | undefined {
  if (!isBound(binding) || (scopes.includes('produce') && !scopes.includes('admin'))) return undefined;
  return 'only a key with the scope produce, and without admin, can be bound to sources and keys';
}
