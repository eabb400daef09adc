import { usageError } from '../cli-error.ts';
import type { Command } from '../command.ts';
import { writeProject } from '../project.ts';

export const init: Command = {
  name: 'init',
  summary: 'Create a small project with a read model of your own.',
  usages: ['<folder>'],
  options: {},
  async run(args, { output }) {
    const [folder, ...more] = args.positionals;
    if (folder === undefined || more.length) throw usageError('name one folder: sluice init <folder>');
    const files = writeProject(folder);
    const steps = [...(folder === '.' ? [] : [`cd ${folder}`]), 'npm install', 'npm start'];
    output.result({ folder, files }, () =>
      [`wrote ${files.length} files to ${folder}:`, ...files.map((file) => `  ${file}`), '', 'next:']
        .concat(
          steps.map((step) => `  ${step}`),
          '',
        )
        .join('\n'),
    );
    return 0;
  },
};
