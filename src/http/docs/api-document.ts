/** Of an OpenAPI document, what the reference page shows. */
export interface ApiDocument {
  readonly info: { readonly title: string; readonly version: string; readonly description?: string };
  readonly tags?: readonly { readonly name: string; readonly description?: string }[];
  readonly paths: Readonly<Record<string, object>>;
  readonly components?: { readonly schemas?: Readonly<Record<string, Schema>> };
}

export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly description?: string;
  readonly nullable?: boolean;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly example?: unknown;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: boolean | Schema;
  readonly items?: Schema;
  readonly allOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
}

export interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly description?: string;
  readonly schema?: Schema;
}

export type Content = Readonly<Record<string, { readonly schema?: Schema; readonly example?: unknown }>>;

export interface ApiResponse {
  readonly description: string;
  readonly content?: Content;
  readonly headers?: Readonly<Record<string, { readonly description?: string; readonly schema?: Schema }>>;
}

export interface Operation {
  readonly operationId: string;
  readonly summary?: string;
  readonly description?: string;
  readonly tags?: readonly string[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly required?: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, ApiResponse>>;
  readonly 'x-scope'?: string;
}

export interface Endpoint {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

const METHODS = ['get', 'post', 'put', 'patch', 'delete', 'head', 'options'];

export interface Group {
  readonly tag: string;
  readonly description: string;
  readonly endpoints: readonly Endpoint[];
}

/** Every operation under its first tag: tags that the document declares in its order, then the others. */
export function groupsOf({ paths, tags = [] }: ApiDocument): Group[] {
  const groups = new Map<string, Endpoint[]>(tags.map(({ name }) => [name, []]));
  for (const path of Object.keys(paths).sort()) {
    const operations = paths[path] as Readonly<Record<string, Operation | undefined>>;
    for (const method of METHODS) {
      const operation = operations[method];
      if (!operation) continue;
      const tag = operation.tags?.[0] ?? 'other';
      const endpoint = { method: method.toUpperCase(), path, operation };
      groups.set(tag, [...(groups.get(tag) ?? []), endpoint]);
    }
  }
  const descriptions = new Map(tags.map(({ name, description = '' }) => [name, description]));
  return [...groups]
    .filter(([, endpoints]) => endpoints.length > 0)
    .map(([tag, endpoints]) => ({ tag, description: descriptions.get(tag) ?? '', endpoints }));
}
