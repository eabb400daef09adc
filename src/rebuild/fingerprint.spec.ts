import { expect, it } from '@jest/globals';
import type { DenormalizerOptions } from '../contract/denormalizer.ts';
import type { DeclaredDenormalizer } from '../inbox/denormalizers/declared-denormalizer.ts';
import { fingerprintOf } from './fingerprint.ts';

class Plain {
  async apply() {}
}
const Helped = [1, 2].map((n) => {
  // The names are the same, the methods differ.
  if (n === 1) {
    class Same {
      async apply() {
        this.help();
      }
      help() {}
    }
    return Same;
  }
  class Same {
    async apply() {
      this.help();
    }
    help() {
      return 1;
    }
  }
  return Same;
});

const declared = (
  instance: DeclaredDenormalizer['instance'],
  options: Partial<DenormalizerOptions> = {},
): DeclaredDenormalizer => ({ name: 'one', options: { types: ['a', 'b'], ...options }, instance });

it('is the same for the same code, in whatever order it is declared', () => {
  const [plain, other] = [declared(new Plain()), { ...declared(new Helped[0]!()), name: 'other' }];
  expect(fingerprintOf([plain, other])).toBe(fingerprintOf([other, plain]));
  expect(fingerprintOf([declared(new Plain(), { types: ['b', 'a'] })])).toBe(fingerprintOf([plain]));
  expect(fingerprintOf([declared(new Plain(), { order: 0, sequential: false })])).toBe(
    fingerprintOf([plain]),
  );
});

it.each([
  ['a type', declared(new Plain(), { types: ['a'] })],
  ['an option', declared(new Plain(), { rank: { a: 1 } })],
  ['what is left out in a rebuild', declared(new Plain(), { rebuild: { prepare: 'skip' } })],
  ['a method', declared({ apply: async () => undefined })],
])('differs by %s', (_, other) => {
  expect(fingerprintOf([other])).not.toBe(fingerprintOf([declared(new Plain())]));
});

it('differs by methods that its methods call, also in a class that it extends', () => {
  const [one, other] = Helped.map((Same) => fingerprintOf([declared(new Same())]));
  expect(one).not.toBe(other);
  const [extended, otherwise] = Helped.map((Same) => {
    class Extended extends Same {}
    return fingerprintOf([declared(new Extended())]);
  });
  expect(extended).not.toBe(otherwise);
});
