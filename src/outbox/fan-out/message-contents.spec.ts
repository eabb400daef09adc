import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { loadSettings } from '../../config/settings.ts';
import { Database } from '../../database/database.ts';
import type { ClaimedDelivery, MessageContent } from '../claim/outbox-queue.ts';
import { OutboxStore } from '../outbox-store.ts';
import { MessageContents } from './message-contents.ts';

let database: TestDatabase;
let engine: Database;

beforeAll(async () => {
  database = await createDatabase();
  engine = new Database(database.url, loadSettings({}), undefined, () => undefined);
});
afterAll(async () => {
  await engine.close();
  await database.drop();
});

const ROLES = loadSettings({}).roles;

/** The messages that are still in memory; the table is empty. */
async function keptOf(count: number, payload: string, roles = ROLES): Promise<number[]> {
  const contents = new MessageContents({ roles }, new OutboxStore(engine));
  const positions = Array.from({ length: count }, (_, n) => n + 1);
  for (const position of positions) contents.remember({ position, payload } as MessageContent);
  const deliveries = positions.map((message) => ({ message, bytes: payload.length }) as ClaimedDelivery);
  const found = await Promise.all(deliveries.map((delivery) => contents.of([delivery])));
  return found.flatMap((known) => [...known.keys()]);
}

describe('a message that was just fanned out', () => {
  it('is kept in memory', async () => {
    expect(await keptOf(3, '{"n":1}')).toEqual([1, 2, 3]);
  });

  it.each([
    ['tiny ones', '1', 30_000],
    ['large ones', `"${'x'.repeat(50_000)}"`, 500],
  ])('takes a bounded place: of many %s only the latest', async (_, payload, count) => {
    const kept = await keptOf(count, payload);
    expect(kept.length).toBeLessThan(17_000);
    expect(kept.length * payload.length).toBeLessThanOrEqual(16 * 1024 * 1024);
    expect(kept.length * (payload.length + 1024)).toBeGreaterThan(7 * 1024 * 1024);
    expect(kept.at(-1)).toBe(count);
  });

  it('is not kept by a replica that does not send', async () => {
    expect(await keptOf(3, '{"n":1}', ['api', 'inbox', 'upkeep'])).toEqual([]);
  });
});
