import { type Binding, MAX_PREFIXES, prefixError, scopesError } from './key-binding.ts';
import { Refused } from './setting.ts';

export const SCOPES = ['produce', 'consume', 'read', 'admin'] as const;
export type Scope = (typeof SCOPES)[number];

export interface ConfiguredKey extends Binding {
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** sk_<id>_<secret> */
  readonly key: string;
}

export const API_KEYS_FORM =
  '`name=scope+scope:sk_<id>_<secret>,…` (scopes: produce, consume, read, admin; secret: 8 characters or more); ' +
  '`name=produce[source=urn:shop/,key=shop-]:sk_…` may only post for these sources and keys: prefixes, without commas and brackets, ' +
  'several of each allowed';

const ENTRY = /^([A-Za-z0-9][\w.-]{0,62})=([a-z+]+)(?:\[([^[\]]*)\])?:(sk_[A-Za-z0-9]{1,32}_[\w-]{8,200})$/;
const COMMA_OUTSIDE_BRACKETS = /,(?![^[\]]*\])/;
const BOUND_FIELDS = { source: 'sources', key: 'keys' } as const;

/** An invalid entry is reported by its number; an entry that cannot be parsed is never quoted, it may be a secret. */
export function parseApiKeys(raw: string): readonly ConfiguredKey[] | Refused {
  const entries = raw
    .split(COMMA_OUTSIDE_BRACKETS)
    .map((entry, index) => parseEntry(entry.trim(), index + 1));
  const errors = entries.filter((entry) => typeof entry === 'string');
  if (errors.length > 0) return new Refused(errors.join('; '));
  const keys = entries as ConfiguredKey[];
  const twice =
    repeated(keys, 'name', ({ name }) => name) ?? repeated(keys, 'id', ({ key }) => key.split('_')[1]!);
  return twice === undefined ? keys : new Refused(twice);
}

/** Returns the key, or an error message. */
function parseEntry(entry: string, number: number): ConfiguredKey | string {
  const match = ENTRY.exec(entry);
  if (!match) return `entry ${number} is not of this form`;
  const [, name = '', scopeText = '', bindingText, key = ''] = match;
  const place = `entry ${number} (${name})`;
  const scopes = scopeText.split('+');
  if (!scopes.every(isScope)) return `${place} has an unknown scope`;
  const binding = parseBinding(bindingText);
  if (typeof binding === 'string') return `${place}: ${binding}`;
  const error = scopesError(scopes, binding);
  return error === undefined ? { name, scopes, key, ...binding } : `${place}: ${error}`;
}

/** Parses the text in the brackets: `source=urn:shop/,key=shop-`. */
function parseBinding(text: string | undefined): Binding | string {
  if (text === undefined) return {};
  const binding: { sources?: string[]; keys?: string[] } = {};
  for (const part of text.split(',')) {
    const [, word, prefix] = /^\s*(source|key)=(.*?)\s*$/.exec(part) ?? [];
    if (word === undefined)
      return `${JSON.stringify(part)} in brackets is neither source=<prefix> nor key=<prefix>`;
    const field = BOUND_FIELDS[word as keyof typeof BOUND_FIELDS];
    const error = prefixError(field, prefix);
    if (error) return `${JSON.stringify(part)} in brackets: the prefix ${error}`;
    binding[field] = [...(binding[field] ?? []), prefix!];
    if (binding[field].length > MAX_PREFIXES) return `more than ${MAX_PREFIXES} prefixes of ${field}`;
  }
  return binding;
}

function repeated(
  keys: readonly ConfiguredKey[],
  what: string,
  of: (key: ConfiguredKey) => string,
): string | undefined {
  const values = keys.map(of);
  const second = values.findIndex((value, index) => values.indexOf(value) < index);
  if (second < 0) return undefined;
  return `entries ${values.indexOf(values[second]!) + 1} and ${second + 1} have the same ${what}`;
}

function isScope(text: string): text is Scope {
  return (SCOPES as readonly string[]).includes(text);
}
