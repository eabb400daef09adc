import { log } from '../harness/log.mjs';
import { runVerb } from '../harness/process.mjs';
import { drainRounds } from '../harness/rounds.mjs';
import { listen, whileServing } from '../harness/serving.mjs';
import { percentile } from '../harness/statistics.mjs';
import { compare, within } from '../harness/verdict.mjs';

const SLUICE = 'contenders/sluice.mjs';
const BATCH = 50;
const WARM_UP = 15_000;

/** A backlog of a work queue, pulled and acknowledged over HTTP, against pg-boss, which its workers call in their own process. */
export const workQueue = {
  name: 'work-queue',
  async run(context) {
    const lines = [];
    for (const workers of [1, 8]) {
      const messages = context.quick ? 40_000 : 80_000;
      const drain = { workers, batch: BATCH, warmUp: WARM_UP, until: messages };
      const contender = (label, module, need) => ({ label, module, need, seed: { messages }, drain });
      const rows = await drainRounds(context, [
        contender('Sluice', 'contenders/sluice-queue.mjs'),
        contender('pg-boss', 'contenders/pg-boss-fetch.mjs', 'newer'),
      ]);
      lines.push(
        compare({
          name: 'work-queue',
          ours: rows.get('Sluice'),
          reference: rows.get('pg-boss'),
          referenceName: `pg-boss ${context.versions['pg-boss']}, fetch and complete in ${BATCH}s, ${workers === 1 ? 'one worker' : `${workers} workers`}`,
          unit: 'messages/s',
          target: 2,
          note: 'no HTTP, no order per key',
        }),
      );
    }
    return lines;
  },
};

/** From the post to the response of a poll or a pull that waits, against the webhook of the same service. */
export const pollLatency = {
  name: 'poll-latency',
  async run({ server, noise, quick, rounds }) {
    const seconds = quick ? 8 : 20;
    const rows = { webhook: [], poll: [], pull: [] };
    const sluice = { module: SLUICE, env: { ROLES: 'api,inbox,outbox', EGRESS_ALLOW: '127.0.0.0/8' } };
    for (let round = 1; round <= rounds; round++) {
      await noise.measure();
      const { loaded } = await whileServing(server, sluice, (target, _database, onMessage) => {
        const options = { service: new URL(target).origin, seconds };
        return runVerb('harness/post-and-poll.mjs', 'postAndPoll', options, { onMessage }).result;
      });
      for (const [way, row] of Object.entries(loaded)) {
        rows[way].push(row);
        const [p50, p99] = [row.p50, row.p99].map((ms) => ms.toFixed(1));
        log(`    round ${round}/${rounds}  ${way.padEnd(34)} p50 ${p50} ms, p99 ${p99} ms`);
      }
    }
    const against = (way, field, target) =>
      compare({
        name: 'poll-latency',
        ours: rows[way],
        reference: rows.webhook,
        referenceName: `post → webhook, ${field} (against post → response of a ${way})`,
        unit: 'ms',
        target,
        field,
        atMost: true,
      });
    return [against('poll', 'p50', 1.2), against('poll', 'p99'), against('pull', 'p50', 1.2)];
  },
};

const MAX_OWNED_MS = 300;
const MAX_DEAD_MS = 1_000;

/** Members of a group come, go and die while messages are posted; 16 partitions, two replicas. */
export const rebalancing = {
  name: 'rebalance',
  async run({ server, noise, quick, rounds }) {
    const options = { changes: quick ? 10 : 30, kills: quick ? 2 : 5 };
    const rows = [];
    for (let round = 1; round <= rounds; round++) {
      await noise.measure();
      const row = await rebalanceOnce(server, options);
      rows.push(row);
      const ms = (values) => `${Math.round(percentile(values, 0.5))} (${Math.round(Math.max(...values))}) ms`;
      const { joins, leaves, deaths, repeats } = row;
      log(
        `    round ${round}/${rounds}  join ${ms(joins)}, leave ${ms(leaves)}, death: session + ${ms(deaths)}, ${repeats} repeated`,
      );
    }
    const line = (what, value, limit, unit = 'ms') =>
      within({ name: 'rebalance', values: rows.map(value), unit, limit, referenceName: what });
    const median = (values) => percentile(values, 0.5);
    return [
      line('a member joins: all partitions owned, p50', ({ joins }) => median(joins), MAX_OWNED_MS),
      line('the slowest join', ({ joins }) => Math.max(...joins), MAX_OWNED_MS),
      line('a member leaves: all partitions owned, p50', ({ leaves }) => median(leaves), MAX_OWNED_MS),
      line('the slowest leave', ({ leaves }) => Math.max(...leaves), MAX_OWNED_MS),
      line('messages repeated when members join and leave', ({ repeats }) => repeats, 0, 'messages'),
      line(
        'a member is killed: after its session, all it had is handed out; the slowest',
        ({ deaths }) => Math.max(...deaths),
        MAX_DEAD_MS,
      ),
    ];
  },
};

async function rebalanceOnce(server, options) {
  // Members that die are reported as warnings.
  const env = { ROLES: 'api,inbox', LOG_LEVEL: 'error' };
  const { loaded } = await whileServing(
    server,
    { module: SLUICE, env },
    async (target, database, onMessage) => {
      const second = await listen(SLUICE, 'serve', { url: database, env });
      const services = [target, second.url].map((url) => new URL(url).origin);
      const { result } = runVerb(
        'harness/rebalance.mjs',
        'rebalance',
        { services, ...options },
        { onMessage },
      );
      const measured = await result;
      for (const word of ['warm', 'over', 'stop']) second.send(word);
      await second.result;
      return measured;
    },
  );
  return loaded;
}
