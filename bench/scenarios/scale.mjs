import { drainRounds } from '../harness/rounds.mjs';
import { compare } from '../harness/verdict.mjs';

const module = 'contenders/sluice.mjs';

/** The same backlog shared by 1, 2 and 4 processes; on a small machine they share its cores, too. */
export const replicas = {
  name: 'replicas',
  async run(context) {
    const messages = context.quick ? 40_000 : 120_000;
    const contenders = [1, 2, 4].map((count) => ({
      label: `${count} replicas`,
      module,
      replicas: count,
      seed: { messages },
      drain: { warmUp: messages / 20, seconds: context.quick ? 2 : 4, complete: false },
    }));
    const rows = await drainRounds(context, contenders);
    return [2, 4].map((count) =>
      compare({
        name: 'replicas',
        ours: rows.get(`${count} replicas`),
        reference: rows.get('1 replicas'),
        referenceName: `${count} processes against 1`,
        unit: 'messages/s',
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
