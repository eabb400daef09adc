import { type Arguments, actionOf, type Command, type Context } from '../command.ts';
import { EXIT, usageFault } from '../faults.ts';
import { follow, type Progress } from '../follow.ts';
import { table } from '../output.ts';

const ACTIONS = ['list', 'groups', 'revive', 'discard'] as const;
const FILTERS = ['stage', 'listener', 'type', 'key', 'error', 'since'] as const;
const PATH = '/v1/dead-letters';

interface DeadLetter {
  readonly id: string;
  readonly stage: string;
  readonly listener?: string;
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
  summary: 'List dead letters, let them run again, or give them up.',
  usages: [
    'list [filter]',
    'groups [filter]',
    'revive <id> | <filter> | --all [--dry-run]',
    'discard <id> | <filter> | --all --reason <text> [--dry-run]',
  ],
  options: {
    stage: { type: 'string', value: 'inbox|outbox', about: 'Filter: messages, or deliveries.' },
    listener: { type: 'string', value: 'name', about: 'Filter: deliveries to this listener.' },
    type: { type: 'string', about: 'Filter: a type, or a pattern with *.' },
    key: { type: 'string', about: 'Filter: the key of the message.' },
    error: { type: 'string', about: 'Filter: a part of the error, or a fingerprint of `groups`.' },
    since: { type: 'string', value: 'time', about: 'Filter: dead since; RFC 3339.' },
    all: { type: 'boolean', about: 'Every dead letter; instead of a filter.' },
    limit: { type: 'string', value: 'number', about: 'Most to list (100).' },
    reason: { type: 'string', about: 'Why; kept in the audit log. Needed to discard.' },
    'dry-run': { type: 'boolean', about: 'Only say how many are meant.' },
    detach: { type: 'boolean', about: 'Do not wait until all are handled.' },
  },
  run(args, context) {
    const action = actionOf(args, 'dead-letters', ACTIONS);
    if (action === 'list') return list(args, context);
    if (action === 'groups') return groups(args, context);
    const [, id, ...more] = args.positionals;
    if (more.length > 0) throw usageFault('give one id, or a filter');
    if (action === 'discard' && args.text('reason') === undefined && !args.flag('dry-run'))
      throw usageFault('say why: --reason <text>');
    return id === undefined ? many(action, args, context) : one(action, id, args, context);
  },
};

async function list(args: Arguments, { api, output }: Context): Promise<number> {
  const most = Number(args.text('limit') ?? 100);
  if (!Number.isInteger(most) || most < 1) throw usageFault('--limit must be a whole number above 0');
  const items = (await api.list(PATH, filterOf(args), most)) as DeadLetter[];
  output.answer({ items }, (limit) =>
    items.length === 0
      ? 'no dead letters\n'
      : table(
          items,
          [
            { title: 'ID', of: ({ id }) => id },
            { title: 'STAGE', of: ({ stage }) => stage },
            { title: 'LISTENER', of: ({ listener }) => listener },
            { title: 'TYPE', of: ({ type }) => type },
            { title: 'KEY', of: ({ key }) => key },
            { title: 'TRIES', of: ({ attempt }) => attempt, right: true },
            { title: 'BEHIND', of: ({ waiting }) => waiting, right: true },
            { title: 'DIED', of: ({ diedAt }) => diedAt },
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
  output.answer({ items }, (limit) =>
    items.length === 0
      ? 'no dead letters\n'
      : table(
          items,
          [
            { title: 'COUNT', of: ({ count }) => count, right: true },
            { title: 'STAGE', of: ({ stage }) => stage },
            { title: 'LISTENER', of: ({ listener }) => listener },
            { title: 'ERROR', of: ({ fingerprint }) => fingerprint },
          ],
          limit,
        ),
  );
  return EXIT.ok;
}

async function one(action: 'revive' | 'discard', id: string, args: Arguments, { api, output }: Context) {
  if (FILTERS.some((name) => name !== 'stage' && args.text(name) !== undefined) || args.flag('all'))
    throw usageFault('give an id or a filter, not both');
  const path = `${PATH}/${encodeURIComponent(id)}`;
  const query = { stage: args.text('stage') };
  if (args.flag('dry-run')) {
    const { body } = await api.get(path, query);
    output.answer({ matched: 1, id: body.id, dryRun: true }, () => '1 is meant\n');
    return EXIT.ok;
  }
  if (action === 'revive') await api.call('POST', `${path}/revive`, { query, body: reasonOf(args) });
  else await api.call('DELETE', path, { query: { ...query, ...reasonOf(args) } });
  output.answer({ id, action }, () => `${id} ${action === 'revive' ? 'runs again' : 'is discarded'}\n`);
  return EXIT.ok;
}

async function many(action: 'revive' | 'discard', args: Arguments, context: Context): Promise<number> {
  const { api, output } = context;
  const filter = filterOf(args);
  if (Object.keys(filter).length === 0 && !args.flag('all'))
    throw usageFault('say which: an id, a filter, or --all');
  const body = { filter, ...reasonOf(args), dryRun: args.flag('dry-run') };
  const { body: begun } = await api.call('POST', `${PATH}/${action}`, { body });
  if (body.dryRun || args.flag('detach')) {
    output.answer(begun, () => `${begun.matched} are meant\n`);
    return EXIT.ok;
  }
  const ruling = await follow<Ruling>(
    begun.location,
    context,
    ({ done, skipped, waiting = 0 }) => done + skipped - waiting,
  );
  output.answer(ruling, () => outcomeOf(action, ruling));
  return ruling.status === 'finished' && !ruling.dead ? EXIT.ok : EXIT.refused;
}

function outcomeOf(action: string, { matched, done, skipped, dead = 0, status }: Ruling): string {
  const what = action === 'revive' ? `${done} ran again, ${dead} died again` : `${done} discarded`;
  const late = skipped > 0 ? `, ${skipped} were dead letters no more` : '';
  return `${matched} meant: ${what}${late}${status === 'finished' ? '' : '; it goes on without us'}\n`;
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
