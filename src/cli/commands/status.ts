import { setTimeout as pause } from 'node:timers/promises';
import type { Api } from '../api.ts';
import type { Command } from '../command.ts';
import { EXIT, usageFault } from '../faults.ts';
import { secondsText, table } from '../output.ts';
import { Samples } from '../samples.ts';

interface ListenerStatus {
  readonly name: string;
  readonly state: string;
  readonly ready: number | undefined;
  readonly held: number | undefined;
  readonly oldestSeconds: number | undefined;
  readonly deadLetters: number | undefined;
  readonly circuitOpen: boolean;
}

interface Status {
  readonly at: string;
  readonly url: string;
  readonly ready: boolean;
  readonly alive: boolean;
  readonly inbox: {
    readonly ready: number | undefined;
    readonly held: number | undefined;
    readonly scheduled: number | undefined;
    readonly oldestSeconds: number | undefined;
    readonly deadLetters: number | undefined;
  };
  readonly listeners: readonly ListenerStatus[];
  /** Of the replica that answered, since it started. */
  readonly counts: { readonly accepted: number; readonly processed: number; readonly delivered: number };
}

export const status: Command = {
  name: 'status',
  summary: 'Show what waits, how old it is and how fast it goes; anew every few seconds.',
  usages: ['[--once]'],
  options: {
    once: { type: 'boolean', about: 'Show it once; exit code 1 when the replica is not ready or not alive.' },
    every: { type: 'string', value: 'seconds', about: 'How often to look (2).' },
  },
  async run(args, { api, output, stopping }) {
    const everyMs = Number(args.text('every') ?? 2) * 1_000;
    if (!(everyMs >= 100)) throw usageFault('--every must be at least 0.1 seconds');
    let before: Status | undefined;
    for (;;) {
      const now = await look(api);
      const last = before;
      if (args.flag('once')) {
        output.answer(now, () => shown(now, last));
        return now.ready && now.alive ? EXIT.ok : EXIT.refused;
      }
      output.screen(now, () => shown(now, last));
      before = now;
      await pause(everyMs, undefined, { signal: stopping }).catch(() => undefined);
      if (stopping.aborted) return EXIT.ok;
    }
  },
};

async function look(api: Api): Promise<Status> {
  const [ready, alive, metrics, listeners] = await Promise.all([
    api.ask('GET', '/readyz', { retries: 1 }),
    api.ask('GET', '/livez', { retries: 1 }),
    api.get('/metrics'),
    api.list('/v1/listeners', {}, 10_000),
  ]);
  const samples = new Samples(metrics.text);
  return {
    at: new Date().toISOString(),
    url: api.url,
    ready: ready.status === 200,
    alive: alive.status === 200,
    inbox: {
      ready: samples.sum('backlog', { stage: 'inbox', status: 'ready' }),
      held: samples.sum('backlog', { stage: 'inbox', status: 'held' }),
      scheduled: samples.sum('backlog', { stage: 'inbox', status: 'scheduled' }),
      oldestSeconds: samples.max('backlog_oldest_age_seconds', { stage: 'inbox' }),
      deadLetters: samples.sum('dead_letters', { stage: 'inbox' }),
    },
    listeners: (listeners as { name: string; state: string }[]).map((one) => listenerStatus(one, samples)),
    counts: {
      accepted: samples.sum('messages_accepted_total') ?? 0,
      processed: samples.sum('messages_ended_total') ?? 0,
      delivered: samples.sum('deliveries_attempted_total', { outcome: 'delivered' }) ?? 0,
    },
  };
}

function listenerStatus({ name, state }: { name: string; state: string }, samples: Samples): ListenerStatus {
  const labels = { stage: 'outbox', listener: name };
  return {
    name,
    state,
    ready:
      samples.sum('backlog', { ...labels, status: 'ready' }) ??
      samples.sum('backlog', { ...labels, status: 'limited' }) ??
      samples.sum('backlog', { ...labels, status: 'closed' }),
    held: samples.sum('backlog', { ...labels, status: 'held' }),
    oldestSeconds: samples.max('backlog_oldest_age_seconds', labels),
    deadLetters: samples.sum('dead_letters', labels),
    circuitOpen: samples.max('circuit_open', { listener: name }) === 1,
  };
}

function shown(now: Status, before: Status | undefined): string {
  const { inbox, listeners } = now;
  const lines = [
    `${now.url}  ${now.ready ? 'ready' : 'NOT READY'}, ${now.alive ? 'alive' : 'STANDING STILL'}  ${now.at.slice(11, 19)} UTC`,
    rates(now, before),
    '',
    table(
      [inbox],
      [
        { title: 'INBOX', of: () => '' },
        { title: 'READY', of: ({ ready }) => ready, right: true },
        { title: 'HELD', of: ({ held }) => held, right: true },
        { title: 'SCHEDULED', of: ({ scheduled }) => scheduled, right: true },
        { title: 'OLDEST', of: ({ oldestSeconds }) => secondsText(oldestSeconds), right: true },
        { title: 'DEAD', of: ({ deadLetters }) => deadLetters, right: true },
      ],
    ),
    listeners.length === 0
      ? 'no listeners\n'
      : table(listeners, [
          { title: 'LISTENER', of: ({ name }) => name },
          { title: 'STATE', of: ({ state, circuitOpen }) => (circuitOpen ? 'circuit open' : state) },
          { title: 'READY', of: ({ ready }) => ready, right: true },
          { title: 'HELD', of: ({ held }) => held, right: true },
          { title: 'OLDEST', of: ({ oldestSeconds }) => secondsText(oldestSeconds), right: true },
          { title: 'DEAD', of: ({ deadLetters }) => deadLetters, right: true },
        ]),
  ];
  const blind =
    inbox.ready === undefined
      ? [
          'The replica that answered has not looked at the backlog: it lacks the role upkeep, or just started.\n',
        ]
      : [];
  return [...lines, ...blind].join('\n');
}

/** A replica that started anew begins to count anew. */
function rates(now: Status, before: Status | undefined): string {
  if (!before || before.counts.accepted > now.counts.accepted) {
    const { accepted, processed, delivered } = now.counts;
    return `this replica, since it started: ${accepted} accepted, ${processed} processed, ${delivered} delivered`;
  }
  const seconds = (Date.parse(now.at) - Date.parse(before.at)) / 1_000;
  const rate = (of: keyof Status['counts']) => ((now.counts[of] - before.counts[of]) / seconds).toFixed(1);
  return `this replica: ${rate('accepted')}/s accepted, ${rate('processed')}/s processed, ${rate('delivered')}/s delivered`;
}
