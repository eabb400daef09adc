import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { compilePattern, TypeIndex } from './type-patterns.ts';

describe('a type pattern', () => {
  it.each<[pattern: string, type: string, fits: boolean]>([
    ['*', '', true],
    ['*', 'anything at all', true],
    ['**', 'x', true],
    ['urn:ekp:events/*', 'urn:ekp:events/candidate-accepted', true],
    ['urn:ekp:events/*', 'urn:ekp:events/', true],
    ['urn:ekp:events/*', 'urn:ekp:events', false],
    ['urn:ekp:events/*', 'x-urn:ekp:events/a', false],
    ['*-accepted', 'candidate-accepted', true],
    ['*-accepted', 'candidate-accepted-twice', false],
    ['a*a', 'a', false],
    ['a*a', 'aa', true],
    ['ab*ba', 'aba', false],
    ['ab*ba', 'abba', true],
    ['a*b*c', 'a-c-b-c', true],
    ['a*b*c', 'acb', false],
    ['a*bc*c', 'abc', false],
    ['a*bc*c', 'abcc', true],
    ['a.c', 'abc', false],
    ['a.*', 'a.b', true],
    ['a.*', 'abb', false],
    ['exact', 'exact', true],
    ['exact', 'exactly', false],
    ['*\n*', 'a\nb', true],
    ['[a-z]*', 'b', false],
    ['urn:*:events/*-accepted', 'urn:ekp:events/candidate-accepted', true],
    ['urn:*:events/*-accepted', 'urn:ekp:commands/candidate-accepted', false],
  ])('%s matches %j: %s', (pattern, type, fits) => {
    expect(compilePattern(pattern)(type)).toBe(fits);
  });

  it('matches exactly what the equivalent regular expression matches', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', '.'), maxLength: 8 });
    const patterns = fc.string({ unit: fc.constantFrom('a', 'b', '.', '*'), maxLength: 7 });
    fc.assert(
      fc.property(patterns, letters, (pattern, type) => {
        const expression = new RegExp(`^${pattern.replaceAll('.', '\\.').replaceAll('*', '.*')}$`, 's');
        return compilePattern(pattern)(type) === expression.test(type);
      }),
      { numRuns: 3_000 },
    );
  });

  it('is fast where a regular expression would take years', () => {
    const fits = compilePattern(`${'a*'.repeat(99)}b`);
    expect(fits('a'.repeat(200))).toBe(false);
  });
});

describe('the index of types', () => {
  const all = { name: 'all', types: ['*'] };
  const exact = { name: 'exact', types: ['a/x', 'a/y'] };
  const both = { name: 'both', types: ['a/*', 'a/x', '*x'] };
  const index = new TypeIndex([both, all, exact]);

  it('returns every listener of a type once, in order', () => {
    expect(index.of('a/x')).toEqual([both, all, exact]);
    expect(index.of('a/y')).toEqual([both, all, exact]);
    expect(index.of('a/z')).toEqual([both, all]);
    expect(index.of('b')).toEqual([all]);
    expect(new TypeIndex([exact]).of('b')).toEqual([]);
  });

  it('returns the same result again, for any number of types', () => {
    for (let n = 0; n < 25_000; n++) index.of(`type-${n}`);
    expect(index.of('a/x')).toBe(index.of('a/x'));
    expect(index.of('type-1')).toEqual([all]);
  });
});
