import { type Arguments, actionOf, type Command, type Context } from '../command.ts';
import { EXIT, usageFault } from '../faults.ts';
import { table } from '../output.ts';
import { bodyWithPayload } from '../payload.ts';

const ACTIONS = ['list', 'put', 'pause', 'resume', 'delete'] as const;
const PATH = '/v1/schedules';

interface Schedule {
  readonly name: string;
  readonly cron: string;
  readonly timezone: string;
  readonly type: string;
  readonly paused: boolean;
  readonly nextAt: string | null;
  readonly lastAt: string | null;
}

export const schedules: Command = {
  name: 'schedules',
  summary: 'List, put, pause, resume or delete schedules.',
  usages: [
    'list',
    'put <name> --cron <expression> --type <type> [--payload <JSON>]',
    'pause|resume|delete <name>',
  ],
  options: {
    cron: { type: 'string', value: 'expression', about: 'When: minute hour day month weekday.' },
    timezone: { type: 'string', value: 'zone', about: 'Where that time is meant (UTC).' },
    type: { type: 'string', about: 'The type of the message that is posted.' },
    payload: { type: 'string', value: 'JSON', about: 'Its payload (null).' },
    key: { type: 'string', about: 'Its key.' },
    'on-missed': {
      type: 'string',
      value: 'what',
      about: 'What follows when no replica was there for a while.',
    },
  },
  async run(args, context) {
    const action = actionOf(args, 'schedules', ACTIONS);
    if (action === 'list') return list(context);
    const [, name, ...more] = args.positionals;
    if (name === undefined || more.length > 0)
      throw usageFault(`say which: sluice schedules ${action} <name>`);
    const { api, output } = context;
    const path = `${PATH}/${encodeURIComponent(name)}`;
    if (action === 'delete') {
      await api.call('DELETE', path);
      output.answer({ name, deleted: true }, () => `${name} is deleted\n`);
      return EXIT.ok;
    }
    const { body, text } =
      action === 'put'
        ? await api.call('PUT', path, { body: bodyOf(args) })
        : await api.call('POST', `${path}/${action}`);
    output.answerText(text, (limit) => shown([body], limit));
    return EXIT.ok;
  },
};

async function list({ api, output }: Context): Promise<number> {
  const { items, text } = await api.listWithText(PATH, {}, 10_000);
  output.answerText(`{"items":[${text}]}`, (limit) =>
    items.length === 0 ? 'no schedules\n' : shown(items as Schedule[], limit),
  );
  return EXIT.ok;
}

function shown(items: readonly Schedule[], cellLimit: number): string {
  return table(
    items,
    [
      { title: 'NAME', of: ({ name }) => name },
      { title: 'CRON', of: ({ cron }) => cron },
      { title: 'ZONE', of: ({ timezone }) => timezone },
      { title: 'TYPE', of: ({ type }) => type },
      { title: 'NEXT', of: ({ nextAt, paused }) => (paused ? 'paused' : nextAt) },
      { title: 'LAST', of: ({ lastAt }) => lastAt },
    ],
    cellLimit,
  );
}

function bodyOf(args: Arguments): string {
  const cron = args.text('cron');
  const type = args.text('type');
  if (cron === undefined || type === undefined) throw usageFault('--cron and --type are needed');
  const rest = {
    cron,
    type,
    timezone: args.text('timezone'),
    key: args.text('key'),
    onMissed: args.text('on-missed'),
  };
  return bodyWithPayload(rest, args.text('payload') ?? 'null');
}
