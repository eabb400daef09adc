import { expect, it } from '@jest/globals';
import { rowsFiltered } from '../../../test/support/rows-filtered.ts';
import { sharedClient } from '../../../test/support/shared-client.ts';
import { WRITE_DELIVERIES } from './fan-out.sql.ts';

const MESSAGES = 256;

const { client } = sharedClient();

const positions = Array.from({ length: MESSAGES }, (_, n) => n + 1);
const messages = [
  positions,
  positions.map((n) => `k-${n}`),
  positions.map(() => false),
  positions.map((n) => n % 256),
  positions.map(() => 't'),
  positions.map(() => 10),
];
const targets = [
  ['t', 't'],
  [1, 2],
  [4, 4],
  [true, true],
];

it('finds the sequence number of each key by index, however many keys there are', async () => {
  const settings = 'SET LOCAL plan_cache_mode = force_generic_plan';
  const { filtered } = await rowsFiltered(client, settings, WRITE_DELIVERIES, [...messages, ...targets]);
  expect(filtered).toBe(0);
});
