import { execFileSync } from 'node:child_process';
import { describe, expect, it } from '@jest/globals';

// Plain JavaScript, as the browser gets it: there are no types to import.
const script = './assets/request.js';
const { requestOf, curlOf, headerBytes, indented } = await import(script);

const fields = [
  { name: 'id', place: 'path', required: true, value: 'a/b?c#d %2f' },
  { name: 'limit', place: 'query', required: false, value: '5' },
  { name: 'key', place: 'query', required: false, value: 'x&y=z' },
  { name: 'cursor', place: 'query', required: false, value: '' },
  { name: 'If-None-Match', place: 'header', required: false, value: '"a"' },
];

describe('a request of the reference page', () => {
  it('puts each parameter in its place, encoded, and omits empty ones', () => {
    expect(requestOf({ method: 'GET', path: '/v1/messages/{id}/why', fields })).toEqual({
      method: 'GET',
      url: 'v1/messages/a%2Fb%3Fc%23d%20%252f/why?limit=5&key=x%26y%3Dz',
      headers: [['If-None-Match', '"a"']],
      missing: [],
    });
  });

  it('uses a parameter literally, even if it is a replacement pattern', () => {
    const value = "$&$1$'";
    const request = requestOf({ method: 'GET', path: '/{id}', fields: [{ ...fields[0], value }] });
    expect(decodeURIComponent(request.url)).toBe(value);
  });

  it('reports what is missing', () => {
    const empty = fields.map((field) => ({ ...field, value: '' }));
    expect(requestOf({ method: 'GET', path: '/{id}', fields: empty }).missing).toEqual(['id']);
  });

  it('has a content type when it has a body', () => {
    const post = { method: 'POST', path: '/v1/messages', fields: [], contentType: 'application/json' };
    expect(requestOf({ ...post, body: '{}' })).toMatchObject({
      headers: [['Content-Type', 'application/json']],
      body: '{}',
    });
    expect(requestOf({ ...post, body: '' })).toMatchObject({ headers: [] });
  });

  it('becomes a correctly quoted curl command, with the key from the environment', () => {
    const body = `{"it's": "$HOME \`id\` \\\\ \\"q\\""}\n!`;
    const request = {
      method: 'POST',
      url: 'v1/messages?key=x',
      headers: [['Content-Type', 'application/json']],
      body,
    };
    const command = curlOf(request, 'http://localhost:3000/x/', true);
    const script = `curl() { printf '%s\\0' "$@"; }\n${command}`;
    const read = execFileSync('sh', ['-c', script], { env: { SLUICE_API_KEY: 'sk_a b' }, encoding: 'utf8' });

    expect(read.split('\0')).toEqual([
      '-X',
      'POST',
      'http://localhost:3000/x/v1/messages?key=x',
      '-H',
      'Authorization: Bearer sk_a b',
      '-H',
      'Content-Type: application/json',
      '--data-raw',
      body,
      '',
    ]);
    expect(curlOf({ method: 'GET', url: 'livez', headers: [] }, 'http://x/', false)).toBe(
      "curl 'http://x/livez'",
    );
  });

  it('sends header values as UTF-8', () => {
    expect(Buffer.from(headerBytes('zażółć €'), 'latin1').toString()).toBe('zażółć €');
  });
});

describe('a response of the reference page', () => {
  it.each([
    { a: [1, { b: [] }, {}], 'c: {': '"},[ \\', d: null, e: [[]], '': '' },
    [],
    {},
    'text',
    [{ a: 1 }, { a: 2 }],
  ])('is indented like JSON.stringify: %j', (value) => {
    expect(indented(JSON.stringify(value))).toBe(JSON.stringify(value, null, 2));
    expect(indented(JSON.stringify(value, null, 3))).toBe(JSON.stringify(value, null, 2));
  });

  it('keeps every digit and every duplicate', () => {
    expect(indented('{"n":9007199254740993,"n":1.0,"e":1e400}')).toBe(
      '{\n  "n": 9007199254740993,\n  "n": 1.0,\n  "e": 1e400\n}',
    );
  });

  it.each(['', '}', ']]]]', '{"a', '"\\'])('is shown even if it is not JSON: %j', (text) => {
    expect(indented(text).replaceAll(/\s/g, '')).toBe(text);
  });
});
