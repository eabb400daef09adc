import type { OpenAPIObject } from '@nestjs/swagger';

type Schemas = NonNullable<NonNullable<OpenAPIObject['components']>['schemas']>;
export type SchemaObject = Exclude<Schemas[string], { $ref: string }>;

/**
 * A schema of the OpenAPI document that also has the TypeScript type of what it describes. The view of a response is typed
 * by its schema, so a member that one of them lacks does not compile.
 * `shownAs` is never set. (A unique symbol cannot be named in emitted declarations.)
 */
export type Schema<T = unknown> = SchemaObject & { readonly shownAs?: T };

/** What a view returns for a schema. */
export type Shown<S> = S extends { readonly shownAs?: infer T } ? T : never;

type Fields = Readonly<Record<string, Schema>>;
type ShownFields<Required extends Fields, Optional extends Fields> = {
  readonly [Name in keyof Required]: Shown<Required[Name]>;
} & { readonly [Name in keyof Optional]?: Shown<Optional[Name]> | undefined };

export const TEXT: Schema<string> = { type: 'string' };
export const FLAG: Schema<boolean> = { type: 'boolean' };
export const INTEGER: Schema<number> = { type: 'integer' };
/** A number of things. */
export const COUNT: Schema<number> = { type: 'integer', minimum: 0 };
export const SECONDS: Schema<number> = { type: 'number', minimum: 0 };
export const TIME: Schema<Date | string> = { type: 'string', format: 'date-time' };
export const DURATION: Schema<string> = { type: 'string', example: '30s' };
/** Any JSON value. */
export const ANY: Schema<unknown> = {};

/** One of these values. */
export function choice<const Value extends string>(values: readonly Value[]): Schema<Value> {
  return { type: 'string', enum: [...values] };
}

export function list<T>(items: Schema<T>): Schema<readonly T[]> {
  return { type: 'array', items };
}

/** An object whose member names are data. */
export function map<T>(values: Schema<T>): Schema<Readonly<Record<string, T>>> {
  return { type: 'object', additionalProperties: values };
}

/**
 * An object with these members. It is not closed with `additionalProperties: false`: a later version may add members, and
 * clients must ignore those they do not know. Our own tests close it.
 */
export function object<const Required extends Fields, const Optional extends Fields = Record<never, never>>(
  required: Required,
  optional?: Optional,
): Schema<ShownFields<Required, Optional>> {
  const names = Object.keys(required);
  return {
    type: 'object',
    ...(names.length > 0 ? { required: names } : {}),
    properties: { ...required, ...optional },
  };
}

/** Objects that differ in the value of one member. */
export function oneOf<const Choices extends readonly Schema[]>(
  ...choices: Choices
): Schema<Shown<Choices[number]>> {
  return { oneOf: [...choices] };
}

/** The value or null. OpenAPI 3.0 wants null among the values of an enum, too. */
export function nullable<T>({ title: _, ...schema }: Schema<T>): Schema<T | null> {
  return { ...schema, nullable: true, ...(schema.enum ? { enum: [...schema.enum, null] } : {}) };
}

/** In the document it is `#/components/schemas/<name>`, and generated clients have a type of this name. */
export function named<T>(name: string, schema: Schema<T>): Schema<T> {
  return { ...schema, title: name };
}

/** The `Location` header of a response that created something. */
export const LOCATION = {
  Location: { description: 'The path of what was created.', required: true, schema: TEXT },
};
