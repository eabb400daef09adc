import { describe, expect, it } from '@jest/globals';
import type { OpenAPIObject } from '@nestjs/swagger';
import { withNamedSchemas } from './named-schemas.ts';
import { choice, list, named, nullable, object, type Schema, TEXT } from './schema.ts';

const REF = '#/components/schemas/';
const PERSON = named('Person', object({ name: TEXT }, { nick: nullable(choice(['a'])) }));

describe('named schemas', () => {
  it('are in the components once, and referred to wherever they are used', () => {
    const { paths, components } = documentOf(object({ one: PERSON, all: list(named('Team', list(PERSON))) }));

    expect(JSON.stringify(paths)).toContain(
      JSON.stringify({
        one: { $ref: `${REF}Person` },
        all: { type: 'array', items: { $ref: `${REF}Team` } },
      }),
    );
    expect(components?.schemas).toEqual({
      Known: { type: 'string' },
      Team: { type: 'array', items: { $ref: `${REF}Person` } },
      Person: {
        type: 'object',
        required: ['name'],
        properties: { name: TEXT, nick: { type: 'string', nullable: true, enum: ['a', null] } },
      },
    });
  });

  it('are inline where they may be null: OpenAPI 3.0 allows nothing beside a reference', () => {
    const { components } = documentOf(nullable(PERSON));
    expect(Object.keys(components!.schemas!)).toEqual(['Known']);
  });

  it('leave members and examples alone that happen to be a title', () => {
    const book = { ...object({ title: TEXT }), example: { title: 'Emma' } };
    const { paths } = documentOf(book);
    expect(JSON.stringify(paths)).toContain(JSON.stringify(book));
  });

  it.each(['Person', 'Known'])('cannot share a name with another schema: %s', (name) => {
    expect(() => documentOf(object({ one: PERSON, two: named(name, object({ id: TEXT })) }))).toThrow(
      `Two schemas of the OpenAPI document have the name ${name}.`,
    );
  });
});

function documentOf(schema: Schema): OpenAPIObject {
  const responses = { 200: { description: 'Done.', content: { 'application/json': { schema } } } };
  return withNamedSchemas({
    openapi: '3.0.0',
    info: { title: 'T', version: '1' },
    paths: { '/x': { get: { responses } } },
    components: { schemas: { Known: { type: 'string' } } },
  });
}
