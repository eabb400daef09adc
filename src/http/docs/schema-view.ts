import type { Schema } from './api-document.ts';
import { Html, html, prose } from './html.ts';
import type { Resolved, Schemas } from './schemas.ts';

/** The text before a field's type: its name, and for a parameter its location. */
export interface FieldHead {
  readonly name: string;
  readonly required: boolean;
  readonly place?: string | undefined;
  readonly description?: string | undefined;
}

/** A schema as nested lists of fields. */
export class SchemaView {
  constructor(private readonly schemas: Schemas) {}

  /** A body: its type, description and fields. */
  body(schema: Schema): Html {
    const resolved = this.schemas.resolve(schema);
    const type = resolved.schema.properties ? '' : html`<p class="type">${this.typeOf(resolved)}</p>`;
    return html`<div class="schema">${type}
${this.details(resolved)}${this.inner(resolved)}</div>`;
  }

  field(head: FieldHead, schema: Schema, within: readonly string[] = []): Html {
    const resolved = this.schemas.resolve(schema, within);
    return html`<li><code class="name">${head.name}</code> ${head.place && html`<span class="place">${head.place}</span> `}<span class="type">${this.typeOf(resolved)}</span>${head.required ? html` <strong class="required">required</strong>` : ''}
${this.details(resolved, head.description)}${this.inner(resolved)}</li>
`;
  }

  private details({ schema, within }: Resolved, description = schema.description): Html {
    const element = elementOf(schema);
    const each = element && this.schemas.resolve(element, within).schema.enum;
    const facts = [
      each && html`each one of ${listed(each)}`,
      schema.enum && html`${schema.enum.length === 1 ? 'always' : 'one of'} ${listed(schema.enum)}`,
      schema.const !== undefined && html`always ${value(schema.const)}`,
      schema.default !== undefined && html`default ${value(schema.default)}`,
      schema.example !== undefined && html`e.g. ${value(schema.example)}`,
    ].filter((fact) => fact instanceof Html);
    return html`${description && html`<p>${prose(description)}</p>`}${
      facts.length > 0 ? html`<p class="facts">${separated(facts, ' · ')}</p>` : ''
    }`;
  }

  /** What a value of this schema contains: fields, the items of a list, the values of a map, alternatives. */
  private inner(resolved: Resolved): Html {
    const { schema, within } = resolved;
    if (resolved.recursive !== undefined) return html``;
    const choices = schema.oneOf ?? schema.anyOf;
    if (choices)
      return html`<ol class="choices">${choices.map((choice) => this.choice(choice, within))}</ol>`;
    if (schema.properties) return this.fields(schema, within);
    const element = elementOf(schema);
    return element ? this.inner(this.schemas.resolve(element, within)) : html``;
  }

  private choice(schema: Schema, within: readonly string[]): Html {
    const resolved = this.schemas.resolve(schema, within);
    return html`<li><span class="type">${this.typeOf(resolved)}</span>
${this.details(resolved)}${this.inner(resolved)}</li>`;
  }

  private fields({ properties = {}, required = [] }: Schema, within: readonly string[]): Html {
    const fields = Object.entries(properties).map(([name, field]) =>
      this.field({ name, required: required.includes(name) }, field, within),
    );
    return html`<ul class="fields">${fields}</ul>`;
  }

  private typeOf({ schema, within, recursive }: Resolved): string {
    const kind = recursive === undefined ? this.kindOf(schema, within) : `${recursive}, as above`;
    return [kind, limitsOf(schema), schema.nullable && 'or null'].filter(Boolean).join(', ');
  }

  private kindOf(schema: Schema, within: readonly string[]): string {
    if (schema.oneOf ?? schema.anyOf) return 'one of these';
    const element = elementOf(schema);
    if (element) {
      const of = this.typeOf(this.schemas.resolve(element, within));
      return schema.type === 'array' ? `list of ${of}` : `map of ${of}`;
    }
    const type = [schema.type ?? (schema.properties ? 'object' : 'any')].flat().join(' or ');
    return schema.format ? `${type} (${schema.format})` : type;
  }
}

function elementOf({ items, properties, additionalProperties }: Schema): Schema | undefined {
  if (items) return items;
  return !properties && typeof additionalProperties === 'object' ? additionalProperties : undefined;
}

function limitsOf(schema: Schema): string {
  const limits = [
    range(schema.minimum, schema.maximum),
    range(schema.minLength, schema.maxLength, 'character'),
    range(schema.minItems, schema.maxItems, 'item'),
    schema.pattern && `matches ${schema.pattern}`,
  ];
  return limits.filter(Boolean).join(', ');
}

function range(least: number | undefined, most: number | undefined, unit = ''): string {
  const last = most ?? least;
  if (last === undefined) return '';
  const measured = unit ? `${last} ${unit}${last === 1 ? '' : 's'}` : String(last);
  if (least === undefined) return `at most ${measured}`;
  return most === undefined ? `at least ${measured}` : `${least} to ${measured}`;
}

function value(example: unknown): Html {
  return html`<code>${JSON.stringify(example)}</code>`;
}

function listed(values: readonly unknown[]): Html {
  return separated(values.map(value), ' ');
}

function separated(parts: readonly Html[], separator: string): Html {
  return html`${parts.map((part, index) => (index === 0 ? part : html`${separator}${part}`))}`;
}
