import { WARM_MESSAGES } from '../harness/replicas.mjs';
import { drainRounds } from '../harness/rounds.mjs';
import { compare } from '../harness/verdict.mjs';

const module = 'contenders/sluice.mjs';

const COUNTS = [1, 2, 4, 8];
/** More than any machine of this kind handles. */
const MAX_PER_SECOND = 30_000;

/** The same backlog shared by 1, 2, 4 and 8 processes; on a small machine they share its cores, too. */
export const replicas = {
  name: 'replicas',
  async run(context) {
    const seconds = context.quick ? 3 : 8;
    const contenders = COUNTS.map((count) => ({
      label: `${count} replicas`,
      module,
      replicas: count,
      seconds,
      seed: { messages: count * WARM_MESSAGES + MAX_PER_SECOND * (seconds + 2) },
    }));
    const rows = await drainRounds(context, contenders);
    return COUNTS.slice(1).map((count) =>
      compare({
        name: 'replicas',
        ours: rows.get(`${count} replicas`),
        reference: rows.get('1 replicas'),
        referenceName: `${count} processes against 1`,
        unit: 'messages/s',
        target: 0.9,
      }),
    );
  },
};

/** What a message costs with ever more waiting: flat is the aim. */
export const growth = {
  name: 'growth',
  async run(context) {
    const sizes = context.quick ? [5_000, 50_000] : [5_000, 50_000, 200_000, 1_000_000];
    const contenders = sizes.map((messages) => ({
      label: `backlog ${messages}`,
      module,
      seed: { messages },
      drain: { warmUp: 1_000, until: Math.min(messages, 50_000), complete: false },
    }));
    const rows = await drainRounds(context, contenders);
    const [smallest, ...others] = sizes;
    return others.map((messages) =>
      compare({
        name: 'growth',
        ours: rows.get(`backlog ${messages}`),
        reference: rows.get(`backlog ${smallest}`),
        referenceName: `${messages} waiting against ${smallest}`,
        unit: 'messages/s',
      }),
    );
  },
};
