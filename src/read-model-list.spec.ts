import { describe, expect, it } from '@jest/globals';
import { checkedReadModels } from './read-model-list.ts';

class StockModule {}
const stock = { name: 'stock', module: StockModule, entities: [], migrations: [] };

function faultsOf(given: unknown): string[] {
  try {
    checkedReadModels(given, 'dist/index.js');
    return [];
  } catch (error) {
    return (error as Error).message.split('\n');
  }
}

describe('a list of read models', () => {
  it('may have none, one, or several', () => {
    expect(faultsOf([])).toEqual([]);
    expect(checkedReadModels(stock, '')).toEqual([stock]);
    expect(faultsOf([stock, { ...stock, name: 'orders' }])).toEqual([]);
  });

  it.each([
    [undefined, '1 of 1: is undefined, not a read model: { name, module, entities, migrations }'],
    [
      StockModule,
      '1 of 1: is the class or function StockModule, not a read model: { name, module, entities, migrations }',
    ],
    [{ ...stock, name: '' }, '1 of 1: "name" must be a text, such as "stock"'],
    [{ ...stock, module: {} }, 'stock: "module" must be a class with the decorator @Module'],
    [{ ...stock, entities: undefined }, 'stock: "entities" must be an array of classes; [] if it has none'],
    [
      { ...stock, migrations: ['*.js'] },
      'stock: "migrations" must be an array of classes; [] if it has none',
    ],
  ])('with %p prevents the start', (given, fault) => {
    expect(faultsOf(given)).toEqual([`dist/index.js: read model ${fault}`]);
  });

  it('prevents the start when two have the same name', () => {
    expect(faultsOf([stock, { ...stock }])).toEqual([
      'dist/index.js: two read models have the name "stock": rename one, or list it once',
    ]);
  });
});
