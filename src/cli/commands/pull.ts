import { EXIT, usageError } from '../cli-error.ts';
import type { Command, Context } from '../command.ts';
import { printMessage, Remaining } from '../messages.ts';
import { itemTexts, memberText } from '../raw-json.ts';
import { withoutOutages } from '../without-outages.ts';

const MAX_BATCH = 50;
/** Shorter than the timeout of a call. */
const WAIT = '20s';

export const pull: Command = {
  name: 'pull',
  summary: 'Take messages from a listener with the mode "pull", print and acknowledge them.',
  usages: ['<listener> [--count <number>] [--no-wait]'],
  options: {
    count: { type: 'string', value: 'number', about: 'Exit after this number of messages.' },
    'no-wait': { type: 'boolean', about: 'Exit when there is no message, instead of waiting for one.' },
  },
  async run(args, context) {
    const [listener, ...more] = args.positionals;
    if (listener === undefined || more.length > 0)
      throw usageError('give a listener: sluice pull <listener>');
    const remaining = Remaining.of(args);
    const wait = args.flag('no-wait') ? '0s' : WAIT;
    const path = `/v1/listeners/${encodeURIComponent(listener)}`;
    for (let isFirst = true; !context.stopping.aborted && !remaining.isOver; isFirst = false) {
      const count = await pullOnce(path, wait, isFirst, remaining, context);
      if (count === 0 && args.flag('no-wait')) break;
    }
    return EXIT.ok;
  },
};

/** Returns how many messages it took. */
async function pullOnce(
  path: string,
  wait: string,
  isFirst: boolean,
  remaining: Remaining,
  context: Context,
): Promise<number> {
  const { api, output, stopping } = context;
  const body = { max: remaining.upTo(MAX_BATCH), wait };
  const call = () => api.call('POST', `${path}/pull`, { body, signal: stopping });
  const pulled = await withoutOutages(context, call, isFirst);
  const texts = pulled ? itemTexts(memberText(pulled.text, 'messages')!) : [];
  if (texts.length === 0) return 0;
  for (const text of texts) {
    printMessage(text, {}, output);
    remaining.take();
  }
  const leases = texts.map((text) => (JSON.parse(text) as { lease: string }).lease);
  await acknowledge(path, leases, context);
  return texts.length;
}

/** After printing: a message that was not printed is handed out again. */
async function acknowledge(path: string, leases: readonly string[], context: Context): Promise<void> {
  const { api, output } = context;
  const acknowledged = await withoutOutages(context, () =>
    api.call('POST', `${path}/acknowledge`, { body: { acknowledge: leases }, retries: 2 }),
  );
  const results = (acknowledged?.body.leases ?? []) as { outcome: string }[];
  const late = results.filter(({ outcome }) => outcome !== 'done').length;
  if (late > 0) output.note(`the leases of ${late} messages ran out; they are handed out again`);
}
