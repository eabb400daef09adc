import { after, before, it } from 'node:test';
import { messageOf, readModelTest } from 'sluice/testing';
import { ITEM_RECEIVED, ITEM_SOLD, Item, ItemDenormalizer, stock } from './stock.ts';

const { given } = readModelTest(stock, { before, after });
const received = messageOf(ITEM_RECEIVED, { itemId: 'i-1', pieces: 5 }, 'itemId');
const sold = messageOf(ITEM_SOLD, { itemId: 'i-1', pieces: 1 }, 'itemId');

it('counts what came and went', async () => {
  await given(ItemDenormalizer, [received()])
    .when(sold(), { times: 2 })
    .then(Item, [{ id: 'i-1', pieces: 3 }]);
});

it('cannot sell what is not there', async () => {
  await given(ItemDenormalizer, [received()])
    .when(sold({ pieces: 6 }))
    .thenRefused(/not that many/)
    .and(Item, [{ pieces: 5 }]);
});

it('comes to the same rows when it is rebuilt', async () => {
  await given(ItemDenormalizer, [received(), sold(), received({ itemId: 'i-2' })]).rebuilt();
});
