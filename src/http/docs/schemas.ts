import type { Schema } from './api-document.ts';

const REF = '#/components/schemas/';

/** A schema with references resolved and `allOf` merged. `within`: the names of the schemas around it, its own included. */
export interface Resolved {
  readonly schema: Schema;
  readonly within: readonly string[];
  /** Set if a named schema contains itself; expanding it further would never end. */
  readonly recursive?: string;
}

/** The named schemas of the document. */
export class Schemas {
  constructor(private readonly named: Readonly<Record<string, Schema>>) {}

  resolve(schema: Schema, within: readonly string[] = []): Resolved {
    if (schema.$ref !== undefined) return this.follow(schema.$ref, within);
    if (!schema.allOf) return { schema, within };
    const { allOf, ...rest } = schema;
    const parts = [...allOf.map((part) => this.resolve(part, within)), { schema: rest, within }];
    const recursive = parts.find((part) => 'recursive' in part);
    if (recursive) return { ...recursive, schema: { ...recursive.schema, ...rest } };
    return {
      schema: parts.map((part) => part.schema).reduce(merged),
      within: parts.flatMap((p) => p.within),
    };
  }

  private follow(ref: string, within: readonly string[]): Resolved {
    const name = ref.startsWith(REF) ? ref.slice(REF.length) : ref;
    const known = Object.hasOwn(this.named, name) ? this.named[name] : undefined;
    if (!known) return { schema: { description: `Not in the document: ${name}` }, within };
    if (within.includes(name)) return { schema: { type: 'object' }, within, recursive: name };
    return this.resolve(known, [...within, name]);
  }
}

/** Later parts override earlier ones and add their fields. */
function merged(first: Schema, second: Schema): Schema {
  return {
    ...first,
    ...second,
    ...(first.properties || second.properties
      ? { properties: { ...first.properties, ...second.properties } }
      : {}),
    ...(first.required || second.required
      ? { required: [...(first.required ?? []), ...(second.required ?? [])] }
      : {}),
  };
}
