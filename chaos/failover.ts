import { setTimeout as pause } from 'node:timers/promises';
import type { Ground } from './ground.ts';

/** Nothing is stored any more when producers are through. */
const STORED_WITHIN_MS = 10_000;

/** Resolves when messages are stored again, and the new primary has a standby that commits wait for. */
export async function failOver({ options: { postgres }, database, recoveriesMs }: Ground): Promise<void> {
  const newest = async () => {
    const [row] = await database.query<{ n: number }>('SELECT max(position)::int AS n FROM inbox');
    return row!.n;
  };
  const before = await newest();
  await postgres.failOver();
  const promotedAt = Date.now();
  const recovered = async () => {
    while (Date.now() - promotedAt < STORED_WITHIN_MS) {
      if ((await newest()) > before) return recoveriesMs.push(Date.now() - promotedAt);
      await pause(10);
    }
    return undefined;
  };
  await Promise.all([recovered(), postgres.addStandby()]);
}
