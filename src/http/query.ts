import { nearest } from '../config/nearest.ts';
import { Problem } from './problems.ts';

/** Reads the query of a request. Allows the named parameters, each at most once, and rejects all others by name. */
export function queryOf<const Name extends string>(
  query: unknown,
  names: readonly Name[],
): { readonly [K in Name]: string | undefined } {
  const given = (query ?? {}) as Record<string, unknown>;
  const errors: string[] = [];
  for (const [name, value] of Object.entries(given)) {
    if (!names.includes(name as Name)) {
      const meant = nearest(name, names, 3);
      errors.push(`"${name}" is not a parameter of this route${meant ? `; did you mean "${meant}"?` : '.'}`);
    } else if (typeof value !== 'string') errors.push(`"${name}" must be given once.`);
    else if (value.includes('\u0000')) errors.push(`"${name}" must not contain NUL.`);
  }
  if (errors.length) throw new Problem('invalid', errors.join(' '));
  return given as { readonly [K in Name]: string | undefined };
}
