import { EXIT, usageError } from '../cli-error.ts';
import type { Command } from '../command.ts';
import { follow, type Progress } from '../follow.ts';

interface Replay extends Progress {
  readonly sent: number;
  readonly dead: number;
  readonly waiting: number;
}

export const replay: Command = {
  name: 'replay',
  summary: 'Send past deliveries to a listener again, in order per key.',
  usages: ['<listener> --since <time>'],
  options: {
    since: { type: 'string', value: 'time', about: 'Deliveries created at this time or later; RFC 3339.' },
    until: { type: 'string', value: 'time', about: 'Deliveries created before this time.' },
    type: { type: 'string', multiple: true, about: 'Only this type, or pattern with *.' },
    key: { type: 'string', multiple: true, about: 'Only this key.' },
    'only-failed': { type: 'boolean', about: 'Only dead letters.' },
    detach: { type: 'boolean', about: 'Do not wait for the result.' },
  },
  async run(args, context) {
    const [listener, ...more] = args.positionals;
    const since = args.text('since');
    if (listener === undefined || more.length > 0 || since === undefined)
      throw usageError('give a listener and a time: sluice replay <listener> --since <time>');
    const types = args.texts('type');
    const keys = args.texts('key');
    const until = args.text('until');
    const { body: started } = await context.api.call(
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
      const count = started.selecting ? `${started.matched} or more` : started.matched;
      context.output.result(started, () => `sending ${count} again; see ${started.location}\n`);
      return EXIT.ok;
    }
    const done = await follow<Replay>(started.location, context, ({ sent, dead }) => sent + dead);
    const rest = done.status === 'finished' ? '' : `, ${done.waiting} waiting; still running on the service`;
    context.output.result(done, () => `${done.sent} sent again, ${done.dead} dead letters${rest}\n`);
    return done.status === 'finished' && done.dead === 0 ? EXIT.ok : EXIT.failed;
  },
};
