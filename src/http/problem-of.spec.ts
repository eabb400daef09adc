import { describe, expect, it } from '@jest/globals';
import { isFaultOfOurs, problemOf } from './problem-of.ts';
import { Problem } from './problems.ts';

const withCode = (code: string) => Object.assign(new Error('secret'), { code });

describe('what was thrown', () => {
  it.each([
    ['one of our problems', new Problem('conflict', 'It is there.'), 'conflict', false],
    ['what Fastify refuses', withCode('FST_ERR_CTP_BODY_TOO_LARGE'), 'too-large', false],
    ['NUL in a text', withCode('22021'), 'invalid', false],
    ['a value that PostgreSQL refuses, and that we let through', withCode('22003'), 'invalid', true],
    ['a conflict of transactions', withCode('40001'), 'overloaded', false],
    ['a database that is away', withCode('ECONNREFUSED'), 'database-away', true],
    ['anything else', withCode('23505'), 'internal', true],
  ])('is one problem to the caller, and ours to look at or not: %s', (_what, error, problem, ours) => {
    const told = problemOf(error);
    expect([told.problem, isFaultOfOurs(told, error)]).toEqual([problem, ours]);
    expect(told.detail).not.toContain('secret');
  });
});
