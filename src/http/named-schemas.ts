import { isDeepStrictEqual } from 'node:util';
import type { OpenAPIObject } from '@nestjs/swagger';

/** Moves every schema with a title to `components` and refers to it there. */
export function withNamedSchemas(document: OpenAPIObject): OpenAPIObject {
  const schemas: Record<string, unknown> = { ...document.components?.schemas };
  const moved = moveSchemas(document.paths, schemas) as OpenAPIObject['paths'];
  return {
    ...document,
    paths: moved,
    components: { ...document.components, schemas: schemas as never },
  };
}

function moveSchemas(value: unknown, schemas: Record<string, unknown>): unknown {
  if (Array.isArray(value)) return value.map((item) => moveSchemas(item, schemas));
  if (typeof value !== 'object' || value === null) return value;
  // An example is a value, which may have a title of its own.
  const members = Object.entries(value).map(([key, member]) => [
    key,
    key === 'example' ? member : moveSchemas(member, schemas),
  ]);
  const { title: name, ...schema } = Object.fromEntries(members);
  if (typeof name !== 'string') return Object.fromEntries(members);
  if (schemas[name] !== undefined && !isDeepStrictEqual(schemas[name], schema))
    throw new Error(`Two schemas of the OpenAPI document have the name ${name}.`);
  schemas[name] = schema;
  return { $ref: `#/components/schemas/${name}` };
}
