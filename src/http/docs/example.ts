import type { Schema } from './api-document.ts';
import type { Resolved, Schemas } from './schemas.ts';

const PLAIN = new Map<string, unknown>([
  ['date-time', '2026-01-31T12:00:00Z'],
  ['string', 'text'],
  ['boolean', true],
  ['null', null],
]);

/** The smallest useful value: required fields, and scalar fields with an example. */
export function exampleOf(schemas: Schemas, schema: Schema, within: readonly string[] = []): unknown {
  const resolved = schemas.resolve(schema, within);
  const given = resolved.schema;
  if (given.example !== undefined) return given.example;
  if (given.default !== undefined) return given.default;
  if (given.const !== undefined) return given.const;
  if (given.enum) return given.enum[0];
  if (resolved.recursive) return {};
  const choice = (given.oneOf ?? given.anyOf)?.[0];
  if (choice) return exampleOf(schemas, choice, resolved.within);
  if (given.properties) return fieldsOf(schemas, resolved);
  return plainOf(schemas, resolved);
}

function fieldsOf(schemas: Schemas, { schema, within }: Resolved): Record<string, unknown> {
  const wanted = Object.entries(schema.properties ?? {}).filter(
    ([name, field]) => schema.required?.includes(name) || isPlainExample(field.example),
  );
  return Object.fromEntries(wanted.map(([name, field]) => [name, exampleOf(schemas, field, within)]));
}

function isPlainExample(example: unknown): boolean {
  return example !== undefined && typeof example !== 'object';
}

function plainOf(schemas: Schemas, { schema, within }: Resolved): unknown {
  const type = typeof schema.type === 'object' ? schema.type[0] : schema.type;
  if (type === 'array') return schema.items ? [exampleOf(schemas, schema.items, within)] : [];
  if (type === 'number' || type === 'integer') return schema.minimum ?? 1;
  const known = [schema.format, type].find((name) => name !== undefined && PLAIN.has(name));
  return known === undefined ? {} : PLAIN.get(known);
}
