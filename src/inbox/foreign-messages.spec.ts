import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Caller } from '../http/access.ts';
import { Problem } from '../http/problems.ts';
import { type NewMessage, sourceOfCaller } from './new-message.ts';
import { refuseForeign } from './post-messages.ts';

const text = fc.string({ unit: fc.constantFrom('a', 'b', '/', 'é'), maxLength: 4 });
const prefixes = fc.option(
  fc.array(
    text.filter((one) => one !== ''),
    { minLength: 1, maxLength: 3 },
  ),
  {
    nil: undefined,
  },
);
const message = fc.record({
  source: fc.oneof(text, fc.constant(sourceOfCaller('me')), fc.constant(sourceOfCaller('others'))),
  key: text,
  keyless: fc.boolean(),
}) as unknown as fc.Arbitrary<NewMessage>;

describe('messages that are posted with a bound API key', () => {
  it('are refused exactly where a source or a key begins with none of its prefixes', () => {
    fc.assert(
      fc.property(fc.array(message, { minLength: 1 }), prefixes, prefixes, (messages, sources, keys) => {
        const caller: Caller = { name: 'me', scopes: ['produce'], sources, keys };
        const foreign = messages.flatMap(({ source, key }, index) => {
          const own = source === 'urn:sluice:api-keys/me';
          const ofSource = sources && !own && !sources.some((one) => source.indexOf(one) === 0);
          const ofKey = keys && !keys.some((one) => key.indexOf(one) === 0);
          return [...(ofSource ? [`/${index}`] : []), ...(ofKey ? [`/${index}`] : [])];
        });
        const reported = pointersOf(() =>
          refuseForeign({ messages, batch: true, pointer: '', bytes: 0 }, caller),
        );
        expect(reported).toEqual(foreign);
      }),
    );
  });
});

function pointersOf(work: () => void): string[] {
  try {
    work();
    return [];
  } catch (error) {
    return (error as Problem).more.errors!.map(({ pointer }) => pointer);
  }
}
