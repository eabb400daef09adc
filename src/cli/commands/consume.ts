import { browse } from '../browse.ts';
import { EXIT, usageError } from '../cli-error.ts';
import type { Arguments, Command, Context } from '../command.ts';
import { GroupConsumer } from '../group-consumer.ts';
import { groupPath } from '../groups.ts';
import { Remaining } from '../messages.ts';

export const consume: Command = {
  name: 'consume',
  summary: 'Print the messages of a topic, one per line.',
  usages: ['<topic> [--from earliest|latest|<offset>] [--partition <number>]', '<topic> --group <group>'],
  options: {
    from: {
      type: 'string',
      value: 'offset',
      about: 'earliest, latest (default), or an offset: where to start in each partition.',
    },
    partition: { type: 'string', value: 'number', about: 'Only this partition.' },
    group: {
      type: 'string',
      value: 'group',
      about:
        'Join this group: read from its offsets, share its partitions, commit what was printed, leave on Ctrl-C.',
    },
    count: { type: 'string', value: 'number', about: 'Exit after this number of messages.' },
    'no-wait': { type: 'boolean', about: 'Exit at the end of the topic, instead of waiting for messages.' },
  },
  async run(args, context) {
    const [topic, ...more] = args.positionals;
    if (topic === undefined || more.length > 0) throw usageError('give a topic: sluice consume <topic>');
    const group = args.text('group');
    const remaining = Remaining.of(args);
    if (group !== undefined) {
      refuseWithGroup(args);
      await refuseOtherTopic(group, topic, context);
      await new GroupConsumer(group, context).run(remaining);
    } else {
      const [from, partition, waits] = [fromOf(args), partitionOf(args), !args.flag('no-wait')];
      await browse({ topic, partition, from, waits, remaining }, context);
    }
    return EXIT.ok;
  },
};

function refuseWithGroup(args: Arguments): void {
  for (const name of ['from', 'partition'])
    if (args.text(name) !== undefined)
      throw usageError(
        `--${name} is not for a group, which has offsets of its own; see "sluice seek --help"`,
      );
  if (args.flag('no-wait')) throw usageError('--no-wait is not for a group; use --count');
}

/** A key with the scope consume alone cannot read the group; then the topic is not checked. */
async function refuseOtherTopic(group: string, topic: string, { api }: Context): Promise<void> {
  const { status, body } = await api.request('GET', groupPath(group), { retries: 2 });
  if (status === 200 && !body.topics.includes(topic))
    throw usageError(`group ${group} does not read ${topic}, but ${body.topics.join(', ')}`);
}

function fromOf(args: Arguments): 'earliest' | 'latest' | number {
  const text = args.text('from') ?? 'latest';
  if (text === 'earliest' || text === 'latest') return text;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw usageError('--from must be earliest, latest or an offset');
}

function partitionOf(args: Arguments): number | undefined {
  const text = args.text('partition');
  if (text === undefined) return undefined;
  if (/^\d{1,3}$/.test(text)) return Number(text);
  throw usageError('--partition must be a whole number');
}
