import { usageError } from '../cli-error.ts';
import type { Arguments, Command, Context, Option } from '../command.ts';

/** For commands that need the read models themselves, not only the API of a service. */
export const READ_MODELS_OPTION: Readonly<Record<string, Option>> = {
  'read-models': {
    type: 'string',
    multiple: true,
    value: 'file',
    about: 'A compiled file that exports "readModels" or a default.',
  },
};

export const serve: Command = {
  name: 'serve',
  summary: 'Start the service in this process, with read models of your own.',
  usages: ['[--read-models dist/index.js]'],
  options: READ_MODELS_OPTION,
  async run(args, context) {
    const sluice = await sluiceOf(args, context);
    // A reader that closes the pipe ends other commands; it must not end a service that is serving.
    process.stdout.removeAllListeners('error');
    return sluice.serve();
  },
};

export const migrate: Command = {
  name: 'migrate',
  summary: 'Bring the schema of DATABASE_URL up to date, that of your read models included.',
  usages: ['[--read-models dist/index.js]'],
  options: READ_MODELS_OPTION,
  async run(args, context) {
    const sluice = await sluiceOf(args, context);
    const { untilDone } = await import('../../start-replica.ts');
    return untilDone(() => sluice.migrate());
  },
};

/** Imported only here: other commands do not need the service, and tracing must start before most of it is loaded. */
async function sluiceOf(args: Arguments, { environment }: Context) {
  const [unexpected] = args.positionals;
  if (unexpected !== undefined)
    throw usageError(`unexpected argument "${unexpected}"; did you mean --read-models ${unexpected}?`);
  const { createSluice } = await import('../../index.ts');
  const readModels = async () => {
    const { loadReadModels } = await import('../../load-read-models.ts');
    return loadReadModels(args.texts('read-models'));
  };
  return createSluice({ environment, readModels });
}
