import { describe, expect, it } from '@jest/globals';
import type { ApiDocument, Operation, Schema } from './api-document.ts';
import { referencePage } from './page.ts';

const HOSTILE = `<img src=x onerror=alert(1)></script></textarea></title>"' onfocus='x' &amp; \`<b>\``;
/** With several slashes and backticks, which become markup. */
const HARMLESS = 'one / two / three / four `five`';

describe('the reference page', () => {
  it('shows text that looks like markup as text, everywhere', () => {
    const page = referencePage(documentOf(HOSTILE), 'docs/x');

    expect(page.match(/onerror/g)!.length).toBeGreaterThan(40);
    expect(elementsOf(page)).toEqual(elementsOf(referencePage(documentOf(HARMLESS), 'docs/x')));
    expect(page).not.toMatch(/&amp;/);
    expect(eventHandlers(page)).toEqual([]);
  });

  it('is checked by a test that detects markup and handlers', () => {
    expect(elementsOf('<p id="a" class="b">x</p><img src=x>')).toEqual(['<p', '</p', '<img']);
    expect(eventHandlers('<p title="a" onfocus="b">onclick="c"</p><a onclick=d>')).toEqual([
      '<p title="a" onfocus="b">',
      '<a onclick=d>',
    ]);
  });

  it('follows references, merges allOf, and stops at a schema that contains itself', () => {
    const page = pageOf({
      schema: { $ref: '#/components/schemas/Tree' },
      schemas: {
        Tree: {
          type: 'object',
          required: ['label'],
          properties: {
            label: { type: 'string', minLength: 1, maxLength: 9 },
            parent: { nullable: true, allOf: [{ $ref: '#/components/schemas/Tree' }] },
            children: { type: 'array', items: { $ref: '#/components/schemas/Tree' } },
            size: { description: 'How large.', allOf: [{ $ref: '#/components/schemas/Size' }] },
            lost: { $ref: '#/components/schemas/constructor' },
          },
        },
        Size: { type: 'object', properties: { width: { type: 'integer', minimum: 1 } } },
      },
    });
    const text = textOf(page);

    expect(text).toContain('label string, 1 to 9 characters required');
    expect(text).toContain('parent Tree, as above, or null');
    expect(text).toContain('children list of Tree, as above');
    expect(text).toMatch(/size object How large\. width integer, at least 1/);
    expect(text).toContain('Not in the document: constructor');
  });

  it('stops at a schema that is only a reference to itself', () => {
    const schema: Schema = { $ref: '#/components/schemas/Loop' };
    const [Loop, Merged] = [schema, { allOf: [{ $ref: '#/components/schemas/Merged' }] }];
    expect(textOf(pageOf({ schema, schemas: { Loop } }))).toContain('Loop, as above');
    const merged = pageOf({ schema: { $ref: '#/components/schemas/Merged' }, schemas: { Merged } });
    expect(textOf(merged)).toContain('Merged, as above');
  });

  it('offers the smallest useful body: required fields and scalar examples', () => {
    const page = pageOf({
      schema: {
        type: 'object',
        required: ['name', 'at', 'count', 'tags', 'mode', 'inner', 'flag'],
        properties: {
          name: { type: 'string', example: 'x' },
          at: { type: 'string', format: 'date-time' },
          count: { type: 'integer', minimum: 3 },
          tags: { type: 'array', items: { type: 'string' } },
          mode: { type: 'string', enum: ['a', 'b'] },
          inner: { type: 'object', properties: { deep: { type: 'string' } } },
          flag: { type: 'boolean', default: false },
          reason: { type: 'string', example: 'because' },
          headers: { type: 'object', example: { a: 'b' } },
          more: { type: 'string' },
        },
      },
    });
    const body = /<textarea[^>]*>\n(.*?)<\/textarea>/s.exec(page)![1]!.replaceAll('&#34;', '"');

    expect(JSON.parse(body)).toEqual({
      name: 'x',
      at: '2026-01-31T12:00:00Z',
      count: 3,
      tags: ['text'],
      mode: 'a',
      inner: {},
      flag: false,
      reason: 'because',
    });
  });

  it('names constraints, defaults and alternatives', () => {
    const text = textOf(
      pageOf({
        schema: {
          oneOf: [
            { type: 'array', maxItems: 1, items: { type: 'number', minimum: 0, maximum: 1 } },
            { type: 'object', additionalProperties: { type: 'string', enum: ['v', 'w'] } },
            { type: ['string', 'null'], default: 'd', pattern: '^x$' },
          ],
        },
      }),
    );
    expect(text).toContain('one of these');
    expect(text).toContain('list of number, 0 to 1, at most 1 item');
    expect(text).toContain('map of string each one of "v" "w"');
    expect(text).toContain('string or null, matches ^x$ default "d"');
  });
});

function pageOf(parts: {
  schema?: Schema;
  schemas?: Record<string, Schema>;
  responses?: Operation['responses'];
}): string {
  const document: ApiDocument = {
    info: { title: 'T', version: '1' },
    paths: {
      '/v1/x': {
        post: {
          operationId: 'x',
          requestBody: { content: { 'application/json': { schema: parts.schema ?? {} } } },
          responses: parts.responses ?? {},
        },
      },
    },
    components: { schemas: parts.schemas ?? {} },
  };
  return referencePage(document, 'docs/x');
}

/** Every text of a document is this one. */
function documentOf(text: string): ApiDocument {
  const schema: Schema = {
    type: text,
    format: text,
    description: text,
    default: text,
    example: text,
    pattern: text,
    enum: [text],
  };
  const nested: Schema = { properties: { [text]: schema }, required: [text], description: text };
  const content = { [text]: { schema: nested }, 'application/json': { schema } };
  const parameters = ['path', 'query', text].flatMap((place) => [
    { name: text, in: place, required: true, description: text, schema },
    { name: text, in: place, required: true, schema: { type: 'string', example: text } },
  ]);
  const operation: Operation = {
    operationId: text,
    summary: text,
    description: text,
    tags: [text],
    parameters,
    requestBody: { content },
    responses: { [text]: { description: text, content, headers: { [text]: { schema } } } },
    'x-scope': text,
  };
  return {
    info: { title: text, version: text, description: text },
    tags: [{ name: text, description: text }],
    paths: { [`/${text}`]: { post: operation } },
    components: { schemas: { [text]: schema, Problem: { $ref: text } } },
  };
}

/** The start and end tags of elements. */
function elementsOf(page: string): string[] {
  return page.match(/<[/a-z]\w*/gi) ?? [];
}

function eventHandlers(page: string): string[] {
  const tags = page.match(/<[a-z](?:"[^"]*"|[^">])*>/gi) ?? [];
  return tags.filter((tag) => /\son\w+\s*=/i.test(tag.replaceAll(/"[^"]*"/g, '""')));
}

function textOf(page: string): string {
  return page
    .replaceAll(/<[^>]+>/g, ' ')
    .replaceAll('&#34;', '"')
    .replaceAll(/\s+/g, ' ');
}
