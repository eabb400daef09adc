import { describe, expect, it } from '@jest/globals';
import { QueryFailedError } from 'typeorm';
import { NotReplicated } from '../database/errors.ts';
import { isServerError, problemOf } from './problem-of.ts';
import { Problem } from './problems.ts';

const withCode = (code: string) => Object.assign(new Error('secret'), { code });

describe('the problem for an error', () => {
  it.each([
    ['a problem', new Problem('conflict', 'The name is taken.'), 'conflict', false],
    ['an error of Fastify', withCode('FST_ERR_CTP_BODY_TOO_LARGE'), 'too-large', false],
    ['NUL in a text', withCode('22021'), 'invalid', false],
    ['a value that passed validation and that PostgreSQL rejects', withCode('22003'), 'invalid', true],
    ['a transaction conflict', withCode('40001'), 'overloaded', false],
    ['an unavailable database', withCode('ECONNREFUSED'), 'database-away', true],
    [
      'a COMMIT through TypeORM that may not be replicated',
      new QueryFailedError('COMMIT', [], new NotReplicated()),
      'database-away',
      true,
    ],
    ['anything else', withCode('23505'), 'internal', true],
  ])(
    'hides the error text and is logged only if the service is at fault: %s',
    (_what, error, name, logged) => {
      const problem = problemOf(error);
      expect([problem.problem, isServerError(problem, error)]).toEqual([name, logged]);
      expect(problem.detail).not.toContain('secret');
    },
  );
});
