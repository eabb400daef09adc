import { EXIT, usageError } from '../cli-error.ts';
import { type Arguments, actionOf, type Command, type Context } from '../command.ts';
import { follow, type Progress } from '../follow.ts';
import { table } from '../output.ts';

const ACTIONS = ['list', 'groups', 'revive', 'discard'] as const;
const FILTERS = ['stage', 'listener', 'group', 'type', 'key', 'error', 'since'] as const;
const PATH = '/v1/dead-letters';

interface DeadLetter {
  readonly id: string;
  readonly stage: string;
  readonly listener?: string;
  readonly group?: string;
  readonly type: string;
  readonly key: string;
  readonly attempt: number;
  readonly error: string;
  readonly diedAt: string;
  readonly waiting: number;
}

interface Group {
  readonly stage: string;
  readonly listener?: string;
  readonly group?: string;
  readonly fingerprint: string;
  readonly count: number;
}

interface Ruling extends Progress {
  readonly done: number;
  readonly skipped: number;
  readonly waiting?: number;
  readonly dead?: number;
}

export const deadLetters: Command = {
  name: 'dead-letters',
  summary: 'List, revive or discard dead letters.',
  usages: [
    'list [filter]',
    'groups [filter]',
    'revive <id> | <filter> | --all [--dry-run]',
    'discard <id> | <filter> | --all --reason <text> [--dry-run]',
  ],
  options: {
    stage: {
      type: 'string',
      value: 'stage',
      about: 'Filter: inbox (messages), outbox (deliveries) or group (rejected by consumers).',
    },
    listener: { type: 'string', value: 'name', about: 'Filter: deliveries to this listener.' },
    group: { type: 'string', value: 'name', about: 'Filter: messages that this consumer group rejected.' },
    type: { type: 'string', about: 'Filter: a type, or a pattern with *.' },
    key: { type: 'string', about: 'Filter: the key of the message.' },
    error: { type: 'string', about: 'Filter: a part of the error, or a fingerprint of `groups`.' },
    since: { type: 'string', value: 'time', about: 'Filter: dead since this time or later; RFC 3339.' },
    all: { type: 'boolean', about: 'All dead letters, instead of a filter.' },
    limit: { type: 'string', value: 'number', about: 'Max number to list (default 100).' },
    reason: { type: 'string', about: 'Reason for the audit log; required by discard.' },
    'dry-run': { type: 'boolean', about: 'Only show how many match.' },
    detach: { type: 'boolean', about: 'Do not wait for the result.' },
  },
  run(args, context) {
    const action = actionOf(args, 'dead-letters', ACTIONS);
    if (action === 'list') return list(args, context);
    if (action === 'groups') return groups(args, context);
    const [, id, ...more] = args.positionals;
    if (more.length > 0) throw usageError('give one id, or a filter');
    if (action === 'discard' && args.text('reason') === undefined && !args.flag('dry-run'))
      throw usageError('discard needs --reason <text>');
    return id === undefined ? many(action, args, context) : one(action, id, args, context);
  },
};

async function list(args: Arguments, { api, output }: Context): Promise<number> {
  const max = Number(args.text('limit') ?? 100);
  if (!Number.isInteger(max) || max < 1) throw usageError('--limit must be a whole number above 0');
  const items = (await api.list(PATH, filterOf(args), max)) as DeadLetter[];
  output.result({ items }, (limit) =>
    items.length === 0
      ? 'no dead letters\n'
      : table(
          items,
          [
            { title: 'ID', of: ({ id }) => id },
            { title: 'STAGE', of: ({ stage }) => stage },
            { title: 'LISTENER/GROUP', of: ({ listener, group }) => listener ?? group },
            { title: 'TYPE', of: ({ type }) => type },
            { title: 'KEY', of: ({ key }) => key },
            { title: 'ATTEMPTS', of: ({ attempt }) => attempt, right: true },
            { title: 'WAITING', of: ({ waiting }) => waiting, right: true },
            { title: 'DEAD SINCE', of: ({ diedAt }) => diedAt },
            { title: 'ERROR', of: ({ error }) => error },
          ],
          limit,
        ),
  );
  return EXIT.ok;
}

async function groups(args: Arguments, { api, output }: Context): Promise<number> {
  const { body } = await api.get(`${PATH}/groups`, filterOf(args));
  const items: Group[] = body.items;
  output.result({ items }, (limit) =>
    items.length === 0
      ? 'no dead letters\n'
      : table(
          items,
          [
            { title: 'COUNT', of: ({ count }) => count, right: true },
            { title: 'STAGE', of: ({ stage }) => stage },
            { title: 'LISTENER/GROUP', of: ({ listener, group }) => listener ?? group },
            { title: 'ERROR', of: ({ fingerprint }) => fingerprint },
          ],
          limit,
        ),
  );
  return EXIT.ok;
}

async function one(action: 'revive' | 'discard', id: string, args: Arguments, { api, output }: Context) {
  if (FILTERS.some((name) => name !== 'stage' && args.text(name) !== undefined) || args.flag('all'))
    throw usageError('give an id or a filter, not both');
  const path = `${PATH}/${encodeURIComponent(id)}`;
  const query = { stage: args.text('stage') };
  if (args.flag('dry-run')) {
    const { body } = await api.get(path, query);
    output.result({ matched: 1, id: body.id, dryRun: true }, () => '1 matched\n');
    return EXIT.ok;
  }
  if (action === 'revive') await api.call('POST', `${path}/revive`, { query, body: reasonOf(args) });
  else await api.call('DELETE', path, { query: { ...query, ...reasonOf(args) } });
  output.result({ id, action }, () => `${id} ${action === 'revive' ? 'revived' : 'discarded'}\n`);
  return EXIT.ok;
}

async function many(action: 'revive' | 'discard', args: Arguments, context: Context): Promise<number> {
  const { api, output } = context;
  const filter = filterOf(args);
  if (Object.keys(filter).length === 0 && !args.flag('all'))
    throw usageError('give an id, a filter, or --all');
  const body = { filter, ...reasonOf(args), dryRun: args.flag('dry-run') };
  const { body: started } = await api.call('POST', `${PATH}/${action}`, { body });
  if (body.dryRun || args.flag('detach')) {
    output.result(started, () => `${started.matched} matched\n`);
    return EXIT.ok;
  }
  const ruling = await follow<Ruling>(
    started.location,
    context,
    ({ done, skipped, waiting = 0 }) => done + skipped - waiting,
  );
  output.result(ruling, () => summaryOf(action, ruling));
  return ruling.status === 'finished' && !ruling.dead ? EXIT.ok : EXIT.failed;
}

function summaryOf(action: string, { matched, done, skipped, dead = 0, status }: Ruling): string {
  const what = action === 'revive' ? `${done} revived, ${dead} dead again` : `${done} discarded`;
  const ignored = skipped > 0 ? `, ${skipped} no longer dead letters` : '';
  return `${matched} matched: ${what}${ignored}${status === 'finished' ? '' : '; still running on the service'}\n`;
}

function filterOf(args: Arguments): Record<string, string> {
  const given = FILTERS.flatMap((name) => {
    const text = args.text(name);
    return text === undefined ? [] : [[name, text] as const];
  });
  return Object.fromEntries(given);
}

function reasonOf(args: Arguments): { reason?: string } {
  const reason = args.text('reason');
  return reason === undefined ? {} : { reason };
}
