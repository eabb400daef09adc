import { setTimeout as pause } from 'node:timers/promises';
import type { TestBed } from './test-bed.ts';

/** A limit: when the producers have finished, no message is stored that could end the wait. */
const STORED_WITHIN_MS = 10_000;

/** Resolves when messages are stored again, and the new primary has a standby that commits wait for. */
export async function failOver({ options: { postgres }, database, recoveriesMs }: TestBed): Promise<void> {
  const lastPosition = async () => {
    const [row] = await database.query<{ n: number }>('SELECT max(position)::int AS n FROM inbox');
    return row!.n;
  };
  const before = await lastPosition();
  await postgres.failOver();
  const promotedAt = Date.now();
  const recovered = async () => {
    while (Date.now() - promotedAt < STORED_WITHIN_MS) {
      if ((await lastPosition()) > before) return recoveriesMs.push(Date.now() - promotedAt);
      await pause(10);
    }
    return undefined;
  };
  await Promise.all([recovered(), postgres.addStandby()]);
}
