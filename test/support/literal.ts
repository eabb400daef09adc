/** A value as a literal of EXECUTE; sufficient for the simple values of tests. */
export function literal(value: unknown): string {
  if (value === null) return 'NULL';
  return Array.isArray(value) ? `'{${value.map(element).join(',')}}'` : `'${value}'`;
}

function element(value: unknown): string {
  return value === null ? 'NULL' : `"${value}"`;
}
