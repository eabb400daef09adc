import { describe, expect, it } from '@jest/globals';
import { Injectable, Module, Scope, type Type } from '@nestjs/common';
import { DiscoveryModule, NestFactory } from '@nestjs/core';
import { IsString } from 'class-validator';
import { Denormalizer, type DenormalizerOptions } from '../../contract/denormalizer.ts';
import { checkDeclarations, type DeclaredDenormalizer } from './declared-denormalizer.ts';
import { Denormalizers } from './denormalizers.ts';

class Payload {
  @IsString()
  id!: string;
}
class Unruled {}
const apply = async () => undefined;

function one(options: object, instance: object = { apply }, name = 'A'): DeclaredDenormalizer {
  return { name, options: options as DenormalizerOptions, instance };
}

/** The error lines that prevent the start. */
function faultsOf(...declared: DeclaredDenormalizer[]): string[] {
  try {
    checkDeclarations(declared);
    return [];
  } catch (error) {
    return (error as Error).message.split('\n');
  }
}

describe('a declaration', () => {
  it.each<[line: string, options: object, instance?: object]>([
    ['"types" must name at least one type', {}],
    ['"types" must name at least one type', { types: [] }],
    ['"types" must name at least one type', { types: 't' }],
    ['a type must be a string', { types: [''] }],
    ['a type must be a string', { types: [undefined] }],
    ['the type "t" is declared twice', { types: ['t', 'u', 't'] }],
    ['"type" is not an option; did you mean "types"?', { types: ['t'], type: 't' }],
    ['"priority" is not an option', { types: ['t'], priority: 1 }],
    [
      '"tt" is coalesced or ranked, but not among its types; did you mean "t"?',
      { types: ['t'], rank: { tt: 1 } },
    ],
    [
      '"elsewhere" is coalesced or ranked, but not among its types',
      { types: ['t'], coalesce: { elsewhere: 's' } },
    ],
    ['"payload" has no class for the type "u"', { types: ['t', 'u'], payload: { t: Payload } }],
    [
      '"payload" has a class for "v", which is not among its types',
      { types: ['t'], payload: { t: Payload, v: Payload } },
    ],
    ...[Unruled, { t: Unruled }].map((payload): [string, object] => [
      'the payload class Unruled has no rules: give its members decorators of class-validator',
      { types: ['t'], payload },
    ]),
    ['the type "t/*" is a pattern: a denormalizer names its types one by one', { types: ['t', 't/*'] }],
    ['it must have either apply or applyBatch', { types: ['t'] }, {}],
    ['it must have either apply or applyBatch', { types: ['t'] }, { apply, applyBatch: apply }],
    [
      'prepare gives its result to apply: it cannot go with applyBatch',
      { types: ['t'] },
      { applyBatch: apply, prepare: apply },
    ],
  ])('prevents the start: %s', (...[line, options, instance]) => {
    expect(faultsOf(one(options, instance))).toEqual([`denormalizer A: ${line}`]);
  });

  it('is reported with every error at once', () => {
    expect(
      faultsOf(one({ types: [], type: 't' }, {}), one({ types: ['t', 't'] }, { apply }, 'B')),
    ).toHaveLength(4);
  });

  it('may use everything that the contract allows', () => {
    const rich = {
      types: ['t', 'u'],
      payload: { t: Payload, u: Payload },
      name: 'rich',
      order: -1,
      sequential: true,
      coalesce: { t: 'slot' },
      rank: { u: 2 },
    };
    expect(
      faultsOf(one(rich, { apply, prepare: apply }), one({ types: ['u'], rank: { u: 2 } }, { apply }, 'B')),
    ).toEqual([]);
  });
});

describe('declarations together', () => {
  const coalescing = (name: string, coalesce: Record<string, string>) =>
    one({ types: Object.keys(coalesce), coalesce }, { apply }, name);

  it('prevent the start when two have the same name', () => {
    expect(faultsOf(one({ types: ['t'] }), one({ types: ['u'] }))).toEqual([
      'two denormalizers have the name A: give one a "name", or list the class in one module',
    ]);
  });

  it('prevent the start when they disagree about coalescing a type', () => {
    expect(faultsOf(coalescing('A', { t: 'slot' }), one({ types: ['t'] }, { apply }, 'B'))).toEqual([
      'denormalizers A and B coalesce "t" differently',
    ]);
    expect(faultsOf(one({ types: ['t'], rank: { t: 1 } }), one({ types: ['t'] }, { apply }, 'B'))).toEqual([
      'denormalizers A and B rank "t" differently',
    ]);
  });

  it('prevent the start when unrelated ones share a slot: their messages would supersede each other', () => {
    expect(faultsOf(coalescing('A', { t: 'edit' }), coalescing('B', { u: 'edit' }))).toEqual([
      'denormalizers A and B both have a slot "edit", for different types: rename one',
    ]);
    expect(faultsOf(coalescing('A', { t: 'edit' }), coalescing('B', { t: 'edit', u: 'edit' }))).toEqual([]);
  });
});

describe('discovery', () => {
  async function found(...modules: Type[]): Promise<Denormalizers> {
    @Module({ imports: [DiscoveryModule, ...modules], providers: [Denormalizers] })
    class Application {}
    const app = await NestFactory.createApplicationContext(Application, {
      logger: false,
      abortOnError: false,
    });
    return app.get(Denormalizers);
  }

  @Denormalizer({ types: ['t'] })
  class First {
    apply = apply;
  }

  @Denormalizer({ types: ['t', 'u'], order: -1 })
  class Earlier {
    apply = apply;
  }

  @Injectable()
  class Bystander {}

  it('finds decorated providers of every kind, and runs them in order', async () => {
    @Module({ providers: [Bystander, First, { provide: 'made', useFactory: () => new Earlier() }] })
    class Both {}
    const denormalizers = await found(Both);
    expect(denormalizers.of('t').map(({ name }) => name)).toEqual(['Earlier', 'First']);
    expect(denormalizers.of('u').map(({ name }) => name)).toEqual(['Earlier']);
    expect(denormalizers.of('v')).toEqual([]);
  });

  it('accepts an alias, and refuses a second instance', async () => {
    @Module({ providers: [First, { provide: 'again', useExisting: First }] })
    class Aliased {}
    expect((await found(Aliased)).of('t')).toHaveLength(1);

    @Module({ providers: [First] })
    class OneOf {}
    @Module({ providers: [First] })
    class Two {}
    await expect(found(OneOf, Two)).rejects.toThrow('two denormalizers have the name First');
  });

  it('prevents the start for one that is request-scoped, instead of ignoring it', async () => {
    @Denormalizer({ types: ['t'] })
    class PerRequest {
      apply = apply;
    }
    Injectable({ scope: Scope.REQUEST })(PerRequest);
    @Module({ providers: [PerRequest] })
    class Wrong {}
    await expect(found(Wrong)).rejects.toThrow('denormalizer PerRequest: it must not be request-scoped');
  });
});
