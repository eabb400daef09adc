import { log } from '../harness/log.mjs';
import { runVerb } from '../harness/process.mjs';
import { drainRounds } from '../harness/rounds.mjs';
import { whileServing } from '../harness/serving.mjs';
import { compare } from '../harness/verdict.mjs';
import { serveAndLoad } from './ingest.mjs';

const BATCH = 500;
const CONNECTIONS = 4;

/** Batches over HTTP, the response after the commit, against COPY of the same rows into the same table. */
export const ingestBatch = {
  name: 'ingest-batch',
  async run(context) {
    const seconds = context.quick ? 4 : 10;
    const ours = [];
    const reference = [];
    const posts = { path: '/batch', batch: BATCH, connections: CONNECTIONS };
    const copy = {
      label: 'COPY',
      module: 'contenders/copy.mjs',
      drain: { warmUp: 10_000, seconds, batch: BATCH, connections: CONNECTIONS, complete: false },
    };
    for (let round = 1; round <= context.rounds; round++) {
      const sluice = async () => {
        await context.noise.measure();
        const row = await serveAndLoad(context.server, { module: 'contenders/sluice.mjs', posts }, seconds);
        log(`    round ${round}/${context.rounds}  Sluice ${Math.round(row.rate)}/s`);
        ours.push(row);
      };
      const copying = async () => {
        const rows = await drainRounds({ ...context, rounds: 1 }, [copy]);
        reference.push(...rows.get('COPY'));
      };
      // Every other round the other way round.
      for (const turn of round % 2 ? [sluice, copying] : [copying, sluice]) await turn();
    }
    return [
      compare({
        name: 'ingest-batch',
        ours,
        reference,
        referenceName: `COPY, ${BATCH} rows per commit, ${CONNECTIONS} connections`,
        unit: 'messages/s',
        note: 'it parses no JSON, checks nothing, returns no duplicate',
      }),
    ];
  },
};

/** Post, processed, webhook delivered: one replica with all roles, as fast as it goes; the last third against the first. */
export const endToEnd = {
  name: 'end-to-end',
  async run(context) {
    const seconds = context.quick ? 15 : 180;
    const rounds = context.quick ? 2 : 3;
    const thirds = [];
    for (let round = 1; round <= rounds; round++) {
      await context.noise.measure();
      const row = await sustainOnce(context, seconds);
      thirds.push(row);
      log(`    round ${round}/${rounds}  ${row.map(describeThird).join(' · ')}`);
    }
    const part = (index) => thirds.map((row) => row[index]);
    const against = (field, unit, referenceName, target, atMost = false) =>
      compare({
        name: 'end-to-end',
        ours: part(2),
        reference: part(0),
        referenceName,
        unit,
        field,
        target,
        atMost,
      });
    return [
      against('rate', 'messages/s', `its own first third of ${seconds} s`, 0.9),
      against('tableBytes', 'table bytes per message', 'its own first third'),
      against('indexBytes', 'index bytes per message', 'its own first third', 1.25, true),
    ];
  },
};

/**
 * The same while everything is removed a minute after it ended, for ten minutes after the first three: the rate against
 * that of a replica that keeps it all, and the sizes at the end against those after a third.
 */
export const retention = {
  name: 'retention',
  async run(context) {
    const seconds = context.quick ? 180 : 600;
    const warmSeconds = 180;
    await context.noise.measure();
    const kept = await sustainOnce(context, warmSeconds, { warmSeconds: 0 });
    log(`    nothing is removed  ${kept.map(describeThird).join(' · ')}`);
    const env = { RETENTION_FINISHED: '1m' };
    const removed = await sustainOnce(context, seconds, { warmSeconds, env });
    const size = ({ tablesAfter, indexesAfter }) =>
      `${Math.round(tablesAfter)} MiB tables, ${Math.round(indexesAfter)} MiB indexes`;
    log(
      `    kept for a minute   ${removed.map((third) => `${describeThird(third)}, ${size(third)}`).join(' · ')}`,
    );
    const against = (ours, reference, field, unit, referenceName, target, atMost) =>
      compare({ name: 'retention', ours, reference, ...{ field, unit, referenceName, target, atMost } });
    const [first, , last] = removed;
    const earlier = `after the first third of ${seconds} s`;
    return [
      against(removed, kept, 'rate', 'messages/s', 'the same, nothing removed; by thirds', 0.9, false),
      against([last], [first], 'tablesAfter', 'MiB of tables', earlier, 1.1, true),
      against([last], [first], 'indexesAfter', 'MiB of indexes', earlier, 1.1, true),
    ];
  },
};

async function sustainOnce({ server }, seconds, { warmSeconds = 0, env: more = {} } = {}) {
  const env = { ROLES: 'api,inbox,outbox,upkeep', EGRESS_ALLOW: '127.0.0.0/8', ...more };
  const sluice = { module: 'contenders/sluice.mjs', env };
  const { loaded: thirds, cpuOver } = await whileServing(server, sluice, (target, database, onMessage) => {
    const options = { service: new URL(target).origin, database, seconds, warmSeconds };
    const maxMs = (seconds + warmSeconds + 300) * 1000;
    return runVerb('harness/sustain.mjs', 'sustain', options, { onMessage, maxMs }).result;
  });
  // The CPU is that of the whole run: it is not separated by thirds.
  const cpu = cpuOver(thirds.reduce((sum, third) => sum + third.messages, 0));
  return thirds.map((third) => ({ ...third, ...cpu }));
}

function describeThird({ rate, tableBytes, indexBytes }) {
  return `${Math.round(rate)}/s, +${Math.round(tableBytes)} B tables, +${Math.round(indexBytes)} B indexes per message`;
}
