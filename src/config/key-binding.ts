/** Whom an api key may post for, as prefixes; undefined: anybody. Its own source is its own in any case. */
export interface Binding {
  readonly sources?: readonly string[] | undefined;
  readonly keys?: readonly string[] | undefined;
}

export type BoundField = keyof Binding;

/** Each is compared with each message. */
export const MAX_PREFIXES = 20;
/** As long as what they are compared with. */
const MAX_CHARACTERS = { sources: 512, keys: 256 };
const CONTROL = /[\u0000-\u001f\u007f]/;
const LONE_SURROGATE = /\p{Surrogate}/u;
/** Nobody posts for these but the service, and each api key for its own. */
const RESERVED = /^urn:sluice:/i;

export function isBound({ sources, keys }: Binding): boolean {
  return sources !== undefined || keys !== undefined;
}

/** Why it cannot be a prefix, as the rest of a sentence about it. An empty one would permit everything. */
export function prefixFault(field: BoundField, prefix: unknown): string | undefined {
  if (typeof prefix !== 'string' || prefix === '') return 'must be a text, and not empty';
  if (prefix.length > MAX_CHARACTERS[field])
    return `must not be longer than ${MAX_CHARACTERS[field]} characters`;
  if (CONTROL.test(prefix) || LONE_SURROGATE.test(prefix))
    return 'must not hold control characters or half a character';
  if (field === 'sources' && RESERVED.test(prefix))
    return 'must not begin with urn:sluice: (an api key always posts for its own source)';
  return undefined;
}

/** Why a key of these scopes cannot be bound: an admin makes itself a key that is not. */
export function scopesFault(scopes: readonly string[], binding: Binding): string | undefined {
  if (!isBound(binding) || (scopes.includes('produce') && !scopes.includes('admin'))) return undefined;
  return 'only a key with the scope produce, and without admin, can be bound to sources and keys';
}
