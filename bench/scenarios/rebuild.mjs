import { log } from '../harness/log.mjs';
import { runVerb } from '../harness/process.mjs';
import { drainRounds } from '../harness/rounds.mjs';
import { compare, within } from '../harness/verdict.mjs';

/**
 * A read model is computed anew from finished messages: against processing them live (no listeners: the least that live
 * messages cost), against one statement over all of them, and beside a backlog. Then the pause of a switch, with a
 * million rows.
 */
export const name = 'rebuild';

const OURS = 'contenders/sluice-rebuild.mjs';

export async function run(context) {
  return [...(await rates(context)), ...(await beside(context)), await pause(context)];
}

async function rates(context) {
  const messages = context.quick ? 40_000 : 100_000;
  const counts = { warmUp: messages / 5, until: messages };
  const contender = (label, seed, drain) => ({ label, module: OURS, seed, drain: { ...counts, ...drain } });
  const live = { pending: messages };
  const inbox = { finished: messages };
  const history = { finished: messages, archived: true };
  const own = { finished: messages, keys: messages };
  const rows = await drainRounds(context, [
    contender('live, apply', live, { mode: 'live' }),
    contender('live, applyBatch', live, { mode: 'live', sets: true }),
    contender('rebuild, apply', inbox, { mode: 'rebuild' }),
    contender('rebuild, applyBatch', inbox, { mode: 'rebuild', sets: true }),
    contender('rebuild from history, apply', history, { mode: 'rebuild' }),
    contender('rebuild from history, applyBatch', history, { mode: 'rebuild', sets: true }),
    contender('rebuild, a key per message', own, { mode: 'rebuild', sets: true }),
    { label: 'one statement', module: 'contenders/sql-fold.mjs', seed: own, drain: counts },
  ]);
  const against = (ours, reference, referenceName, target) =>
    compare({
      name: ours.replace('rebuild', name),
      ours: rows.get(ours),
      reference: rows.get(reference),
      referenceName,
      unit: 'messages/s',
      target,
    });
  return [
    against('rebuild, apply', 'live, apply', 'the same messages live, no listeners', 2),
    against('rebuild, applyBatch', 'live, applyBatch', 'the same, live', 2),
    against('rebuild from history, apply', 'live, apply', 'the same messages live, no listeners', 2),
    against('rebuild from history, applyBatch', 'live, applyBatch', 'the same, live', 2),
    against('rebuild, a key per message', 'one statement', 'one INSERT … SELECT of the same rows', 0.3),
  ];
}

/** The rate of live messages, which are a backlog for the whole time. */
async function beside(context) {
  const messages = context.quick ? 40_000 : 100_000;
  const seed = { finished: 5 * messages, pending: messages };
  const counts = { warmUp: messages / 5, until: messages };
  const rows = await drainRounds(context, [
    { label: 'live alone', module: OURS, seed, drain: { mode: 'live', ...counts } },
    { label: 'live beside a rebuild', module: OURS, seed, drain: { mode: 'beside', ...counts } },
  ]);
  return [
    compare({
      name: 'rebuild, live beside it',
      ours: rows.get('live beside a rebuild'),
      reference: rows.get('live alone'),
      referenceName: 'the same without a rebuild',
      unit: 'messages/s',
      target: 0.9,
    }),
  ];
}

async function pause({ server, quick, rounds }) {
  const url = await server.create('switches');
  await runVerb(OURS, 'setup', { url }).result;
  const rows = quick ? 100_000 : 1_000_000;
  await runVerb(OURS, 'seed', { url, finished: 20_000, rows }).result;
  const pauses = await runVerb(OURS, 'switches', { url, count: quick ? 10 : 20 * rounds }).result;
  await server.drop('switches');
  const sorted = pauses.toSorted((a, b) => a - b);
  const p99 = sorted[Math.ceil(sorted.length * 0.99) - 1];
  log(`    ${pauses.length} switches: p50 ${sorted[Math.floor(sorted.length / 2)]} ms, p99 ${p99} ms`);
  return within({
    name: 'rebuild, pause of a switch, p99',
    values: [p99],
    unit: 'ms',
    limit: 500,
    referenceName: `${pauses.length} switches and rollbacks, ${rows} rows, live messages meanwhile`,
  });
}
