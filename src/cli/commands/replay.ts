import type { Command } from '../command.ts';
import { EXIT, usageFault } from '../faults.ts';
import { follow, type Progress } from '../follow.ts';

interface Replay extends Progress {
  readonly sent: number;
  readonly dead: number;
  readonly waiting: number;
}

export const replay: Command = {
  name: 'replay',
  summary: 'Send old deliveries to a listener again, in order per key.',
  usages: ['<listener> --since <time>'],
  options: {
    since: { type: 'string', value: 'time', about: 'Deliveries written at this time or later; RFC 3339.' },
    until: { type: 'string', value: 'time', about: 'And before this one.' },
    type: { type: 'string', multiple: true, about: 'Only of this type, or pattern with *.' },
    key: { type: 'string', multiple: true, about: 'Only of this key.' },
    'only-failed': { type: 'boolean', about: 'Only dead letters.' },
    detach: { type: 'boolean', about: 'Do not wait until all are sent.' },
  },
  async run(args, context) {
    const [listener, ...more] = args.positionals;
    const since = args.text('since');
    if (listener === undefined || more.length > 0 || since === undefined)
      throw usageFault('say whom and since when: sluice replay <listener> --since <time>');
    const types = args.texts('type');
    const keys = args.texts('key');
    const until = args.text('until');
    const { body: begun } = await context.api.call(
      'POST',
      `/v1/listeners/${encodeURIComponent(listener)}/replay`,
      {
        body: {
          since,
          ...(until === undefined ? {} : { until }),
          ...(types.length ? { types } : {}),
          ...(keys.length ? { keys } : {}),
          ...(args.flag('only-failed') ? { onlyFailed: true } : {}),
        },
      },
    );
    if (args.flag('detach')) {
      const count = begun.selecting ? `${begun.matched} and more` : begun.matched;
      context.output.answer(begun, () => `${count} are sent again; see ${begun.location}\n`);
      return EXIT.ok;
    }
    const done = await follow<Replay>(begun.location, context, ({ sent, dead }) => sent + dead);
    const rest = done.status === 'finished' ? '' : `, ${done.waiting} still wait; it goes on without us`;
    context.output.answer(done, () => `${done.sent} sent again, ${done.dead} died again${rest}\n`);
    return done.status === 'finished' && done.dead === 0 ? EXIT.ok : EXIT.refused;
  },
};
