import { EXIT, usageError } from '../cli-error.ts';
import type { Command } from '../command.ts';
import { listTopics, messagesKept } from '../groups.ts';
import { table } from '../output.ts';

export const topics: Command = {
  name: 'topics',
  summary: 'List topics: partitions, types, messages kept, retention.',
  usages: [''],
  options: {},
  async run(args, { api, output }) {
    if (args.positionals.length > 0) throw usageError('sluice topics takes no arguments');
    const items = await listTopics(api);
    output.result({ items }, (limit) =>
      items.length === 0
        ? 'no topics\n'
        : table(
            items,
            [
              { title: 'TOPIC', of: ({ name }) => name },
              { title: 'PARTITIONS', of: ({ partitions }) => partitions.length, right: true },
              { title: 'TYPES', of: ({ types }) => types.join(', ') },
              { title: 'MESSAGES', of: messagesKept, right: true },
              { title: 'RETENTION', of: ({ retention }) => retention, right: true },
            ],
            limit,
          ),
    );
    return EXIT.ok;
  },
};
