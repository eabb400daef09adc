import { describe, expect, it } from '@jest/globals';
import { BUGS, plantBugs } from '../../chaos/bugs.ts';
import { replaceMethod, rewriteStatement, statementsOf } from '../../chaos/change-code.ts';
import { PLANTED } from '../../chaos/planted-bugs.ts';

/** Planted in this process, where nothing else runs. */
describe('the planted bugs of fault runs', () => {
  it.each(Object.keys(BUGS))('%s finds the code that it changes', (name) => {
    expect(() => plantBugs([name])).not.toThrow();
  });

  it('are each part of a planted run', () => {
    const planted = new Set(PLANTED.flatMap(({ without }) => without));
    expect(Object.keys(BUGS).filter((name) => !planted.has(name as never))).toEqual([]);
  });

  it('fail if there is no such bug, method, statement or text in it', () => {
    class Changed {
      before(): void {}
    }
    const changed = Changed as unknown as { prototype: { after(): void } };
    expect(() => plantBugs(['nonsense'])).toThrow('there is no bug "nonsense"');
    expect(() => replaceMethod(changed, 'after', () => () => undefined)).toThrow('there is no method after');
    expect(() => rewriteStatement(statementsOf(() => undefined)[0], ['a', 'b'])).toThrow('no such statement');
    expect(() => rewriteStatement('SELECT 1', ['FOR UPDATE', ''])).toThrow('has no "FOR UPDATE"');
  });
});
