import { drainRounds } from '../harness/rounds.mjs';
import { compare } from '../harness/verdict.mjs';

/** A backlog on ten thousand keys, one upsert per message; ours writes two deliveries per message besides. */
export const name = 'process';

/** Ours once more, with a denormalizer that upserts whole batches: what the one statement does, too. */
const SETS = 'Sluice, applyBatch';

export async function run(context) {
  const messages = context.quick ? 20_000 : 60_000;
  const fast = { seed: { messages }, drain: { warmUp: messages / 5, until: messages } };
  const slow = { seed: { messages: messages / 4 }, drain: { warmUp: messages / 20, until: messages / 4 } };
  const naive = { seed: { messages: messages / 10 }, drain: { warmUp: messages / 50, until: messages / 10 } };
  const contenders = [
    { label: 'Sluice', module: 'contenders/sluice.mjs', ...fast },
    { label: SETS, module: 'contenders/sluice.mjs', ...fast, drain: { ...fast.drain, sets: true } },
    { label: 'one SQL statement per 500', module: 'contenders/sql-limit.mjs', ...fast },
    { label: 'graphile-worker', module: 'contenders/graphile-worker.mjs', need: 'newer', ...slow },
    { label: 'pg-boss', module: 'contenders/pg-boss.mjs', need: 'newer', ...slow },
    { label: 'TypeORM', module: 'contenders/typeorm.mjs', ...naive },
  ];
  const rows = await drainRounds(context, contenders);
  const against = (label, referenceName, target, note, ours = 'Sluice') =>
    compare({
      name: ours === SETS ? `${name}-sets` : name,
      ours: rows.get(ours),
      reference: rows.get(label),
      referenceName,
      unit: 'messages/s',
      target,
      note,
    });
  const less = 'it writes no deliveries, keeps no order per key, has no fence';
  const limit = ['one SQL statement per 500', 'one SQL statement per 500 messages'];
  const limitNote = 'no order, no fence, no retries';
  return [
    against(...limit, 0.4, `${limitNote}; it upserts sets, we one by one`),
    against(...limit, 0.4, limitNote, SETS),
    against(
      'graphile-worker',
      `graphile-worker ${context.versions['graphile-worker']}, local queue`,
      2,
      less,
    ),
    against('pg-boss', `pg-boss ${context.versions['pg-boss']}, batches of 500`, 2, less),
    against('TypeORM', 'TypeORM, a transaction per message, 10 at a time', undefined, less),
  ];
}
