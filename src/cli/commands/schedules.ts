import { EXIT, usageError } from '../cli-error.ts';
import { type Arguments, actionOf, type Command, type Context } from '../command.ts';
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
  summary: 'List, create, replace, pause, resume or delete schedules.',
  usages: [
    'list',
    'put <name> --cron <expression> --type <type> [--payload <JSON>]',
    'pause|resume|delete <name>',
  ],
  options: {
    cron: { type: 'string', value: 'expression', about: 'When to post: minute hour day month weekday.' },
    timezone: { type: 'string', value: 'zone', about: 'Time zone of the cron expression (default UTC).' },
    type: { type: 'string', about: 'Type of the posted message.' },
    payload: { type: 'string', value: 'JSON', about: 'Payload of the posted message (default null).' },
    key: { type: 'string', about: 'Key of the posted message.' },
    'on-missed': {
      type: 'string',
      value: 'what',
      about: 'What to do about runs that were missed while no replica was running.',
    },
  },
  async run(args, context) {
    const action = actionOf(args, 'schedules', ACTIONS);
    if (action === 'list') return list(context);
    const [, name, ...more] = args.positionals;
    if (name === undefined || more.length > 0)
      throw usageError(`give a name: sluice schedules ${action} <name>`);
    const { api, output } = context;
    const path = `${PATH}/${encodeURIComponent(name)}`;
    if (action === 'delete') {
      await api.call('DELETE', path);
      output.result({ name, deleted: true }, () => `${name} deleted\n`);
      return EXIT.ok;
    }
    const { body, text } =
      action === 'put'
        ? await api.call('PUT', path, { body: bodyOf(args) })
        : await api.call('POST', `${path}/${action}`);
    output.resultText(text, (limit) => render([body], limit));
    return EXIT.ok;
  },
};

async function list({ api, output }: Context): Promise<number> {
  const { items, text } = await api.listWithText(PATH, {}, 10_000);
  output.resultText(`{"items":[${text}]}`, (limit) =>
    items.length === 0 ? 'no schedules\n' : render(items as Schedule[], limit),
  );
  return EXIT.ok;
}

function render(items: readonly Schedule[], cellLimit: number): string {
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
  if (cron === undefined || type === undefined) throw usageError('--cron and --type are required');
  const rest = {
    cron,
    type,
    timezone: args.text('timezone'),
    key: args.text('key'),
    onMissed: args.text('on-missed'),
  };
  return bodyWithPayload(rest, args.text('payload') ?? 'null');
}
