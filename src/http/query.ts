import { nearest } from '../config/nearest.ts';
import { Problem } from './problems.ts';

/** The query of a request: only the named parameters, each at most once; others are refused by name. */
export function queryOf<const Name extends string>(
  query: unknown,
  names: readonly Name[],
): { readonly [K in Name]: string | undefined } {
  const given = (query ?? {}) as Record<string, unknown>;
  const faults: string[] = [];
  for (const [name, value] of Object.entries(given)) {
    if (!names.includes(name as Name)) {
      const meant = nearest(name, names, 3);
      faults.push(`"${name}" is not a parameter here${meant ? `; did you mean "${meant}"?` : '.'}`);
    } else if (typeof value !== 'string') faults.push(`"${name}" must be given once.`);
    else if (value.includes('\u0000')) faults.push(`"${name}" must not hold NUL.`);
  }
  if (faults.length) throw new Problem('invalid', faults.join(' '));
  return given as { readonly [K in Name]: string | undefined };
}
