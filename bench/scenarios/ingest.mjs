import { log } from '../harness/log.mjs';
import { runVerb } from '../harness/process.mjs';
import { describe, inTurn } from '../harness/rounds.mjs';
import { whileServing } from '../harness/serving.mjs';
import { compare } from '../harness/verdict.mjs';

/**
 * Single posts over keep-alive connections, the response after the commit; every contender behind the same framework. The number of
 * connections is that of a service with a few dozen clients: a commit includes what arrived during the commit before.
 */
export const name = 'ingest';

const CONNECTIONS = 256;
const CONTENDERS = [
  { label: 'Sluice', module: 'contenders/sluice.mjs' },
  { label: 'empty route', module: 'contenders/empty-route.mjs' },
  { label: 'graphile-worker', module: 'contenders/graphile-worker.mjs', need: 'newer' },
  { label: 'pg-boss', module: 'contenders/pg-boss.mjs', need: 'newer' },
  { label: 'TypeORM', module: 'contenders/typeorm.mjs' },
];

export async function run(context) {
  const { server, noise, rounds } = context;
  const rows = new Map(CONTENDERS.map(({ label }) => [label, []]));
  for (let round = 1; round <= rounds; round++) {
    for (const contender of inTurn(CONTENDERS, round)) {
      await noise.measure();
      const row = await serveAndLoad(server, contender, context.quick ? 4 : 10);
      rows.get(contender.label).push(row);
      log(`    round ${round}/${rounds}  ${contender.label.padEnd(34)} ${describe(row)}`);
    }
  }
  const against = (label, referenceName, target) =>
    compare({
      name,
      ours: rows.get('Sluice'),
      reference: rows.get(label),
      referenceName,
      unit: 'posts/s',
      target,
    });
  return [
    against('empty route', 'empty Nest + Fastify route', 0.5),
    against('graphile-worker', `graphile-worker ${context.versions['graphile-worker']} addJob`, 4),
    against('pg-boss', `pg-boss ${context.versions['pg-boss']} send`, 4),
    against('TypeORM', 'TypeORM save', undefined),
  ];
}

/** One contender's round; `posts`: how they are posted, if not one by one. */
export async function serveAndLoad(server, { module, need, posts = {} }, seconds) {
  const { path = '', ...how } = posts;
  const { loaded, cpuOver } = await whileServing(server, { module, need }, (target, _database, onMessage) => {
    const options = { url: target + path, connections: CONNECTIONS, warmUpSeconds: 2, seconds, ...how };
    return runVerb('harness/load.mjs', 'load', options, { onMessage }).result;
  });
  return { rate: loaded.messages / loaded.seconds, ...cpuOver(loaded.messages) };
}
