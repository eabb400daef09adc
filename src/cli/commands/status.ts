import type { Api } from '../api.ts';
import { EXIT } from '../cli-error.ts';
import type { Command } from '../command.ts';
import { EVERY, everyOf, show, timeOf } from '../live.ts';
import { secondsText, table } from '../output.ts';
import { Samples } from '../samples.ts';

interface Queue {
  readonly ready: number;
  readonly held: number;
  readonly oldestSeconds: number;
  readonly deadLetters: number;
}

interface GroupBacklog {
  readonly name: string;
  readonly lag: number;
  readonly lagSeconds: number;
  readonly members: number;
  readonly unownedPartitions: number;
  /** Messages that retention removed before the group read them. */
  readonly expired: number;
  readonly deadLetters: number;
}

interface Backlog {
  readonly inbox: Queue & { readonly scheduled: number };
  readonly listeners: readonly (Queue & {
    readonly name: string;
    readonly circuitOpen: boolean;
    /** Of a listener that is pulled: messages that consumers have. */
    readonly inFlight?: number;
  })[];
  readonly groups: readonly GroupBacklog[];
}

interface Status extends Backlog {
  readonly at: string;
  readonly url: string;
  readonly ready: boolean;
  readonly alive: boolean;
  readonly listeners: readonly (Backlog['listeners'][number] & { readonly state: string })[];
  /** Counts of the replica that responded, since it started. */
  readonly counts: {
    readonly since: number;
    readonly accepted: number;
    readonly processed: number;
    readonly delivered: number;
  };
}

export const status: Command = {
  name: 'status',
  summary: 'Show queue lengths, ages and rates, refreshed every few seconds.',
  usages: ['[--once]'],
  options: {
    once: { type: 'boolean', about: 'Show it once; exit code 1 if the replica is not ready or not alive.' },
    every: EVERY,
  },
  async run(args, context) {
    const { api, output } = context;
    const everyMs = everyOf(args);
    if (args.flag('once')) {
      const now = await fetchStatus(api);
      output.result(now, (limit) => render(now, undefined, limit));
      return now.ready && now.alive ? EXIT.ok : EXIT.failed;
    }
    await show({ fetch: () => fetchStatus(api), render }, everyMs, context);
    return EXIT.ok;
  },
};

async function fetchStatus(api: Api): Promise<Status> {
  const [ready, alive, metrics, listeners, backlog] = await Promise.all([
    api.request('GET', '/readyz', { retries: 1 }),
    api.request('GET', '/livez', { retries: 1 }),
    api.get('/metrics'),
    api.list('/v1/listeners', {}, 10_000),
    api.get('/v1/backlog'),
  ]);
  const samples = new Samples(metrics.text);
  const states = new Map(
    (listeners as { name: string; state: string }[]).map(({ name, state }) => [name, state]),
  );
  const { inbox, listeners: queues, groups } = backlog.body as Backlog;
  return {
    at: new Date().toISOString(),
    url: api.url,
    ready: ready.status === 200,
    alive: alive.status === 200,
    inbox,
    listeners: queues.map((queue) => ({ ...queue, state: states.get(queue.name) ?? 'deleted' })),
    groups,
    counts: {
      since: samples.max('process_start_time_seconds') ?? 0,
      accepted: samples.sum('messages_accepted_total') ?? 0,
      processed: samples.sum('messages_ended_total') ?? 0,
      delivered: samples.sum('deliveries_attempted_total', { outcome: 'delivered' }) ?? 0,
    },
  };
}

function render(now: Status, before: Status | undefined, cellLimit: number): string {
  const { inbox, listeners, groups } = now;
  const lines = [
    `${now.url}  ${now.ready ? 'ready' : 'NOT READY'}, ${now.alive ? 'alive' : 'STALLED'}  ${timeOf(now.at)}`,
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
      cellLimit,
    ),
    listeners.length === 0 ? 'no listeners\n' : listenerTable(listeners, cellLimit),
    ...(groups.length === 0 ? [] : [groupTable(groups, cellLimit)]),
  ];
  return lines.join('\n');
}

function listenerTable(listeners: Status['listeners'], cellLimit: number): string {
  const inFlight = {
    title: 'IN FLIGHT',
    of: (one: (typeof listeners)[number]) => one.inFlight,
    right: true,
  } as const;
  return table(
    listeners,
    [
      { title: 'LISTENER', of: ({ name }) => name },
      { title: 'STATE', of: ({ state, circuitOpen }) => (circuitOpen ? 'circuit open' : state) },
      { title: 'READY', of: ({ ready }) => ready, right: true },
      { title: 'HELD', of: ({ held }) => held, right: true },
      { title: 'OLDEST', of: ({ oldestSeconds }) => secondsText(oldestSeconds), right: true },
      { title: 'DEAD', of: ({ deadLetters }) => deadLetters, right: true },
      ...(listeners.some((one) => one.inFlight !== undefined) ? [inFlight] : []),
    ],
    cellLimit,
  );
}

function groupTable(groups: readonly GroupBacklog[], cellLimit: number): string {
  return table(
    groups,
    [
      { title: 'GROUP', of: ({ name }) => name },
      { title: 'MEMBERS', of: ({ members }) => members, right: true },
      { title: 'LAG', of: ({ lag }) => lag, right: true },
      { title: 'BEHIND', of: ({ lagSeconds }) => secondsText(lagSeconds), right: true },
      { title: 'NO OWNER', of: ({ unownedPartitions }) => unownedPartitions, right: true },
      { title: 'EXPIRED', of: ({ expired }) => expired, right: true },
      { title: 'DEAD', of: ({ deadLetters }) => deadLetters, right: true },
    ],
    cellLimit,
  );
}

/** Rates since the last refresh, or totals if another replica responded or the replica was restarted. */
function rates(now: Status, before: Status | undefined): string {
  if (before?.counts.since !== now.counts.since) {
    const { accepted, processed, delivered } = now.counts;
    return `this replica, since it started: ${accepted} accepted, ${processed} processed, ${delivered} delivered`;
  }
  const seconds = (Date.parse(now.at) - Date.parse(before.at)) / 1_000;
  const rate = (of: keyof Status['counts']) => ((now.counts[of] - before.counts[of]) / seconds).toFixed(1);
  return `this replica: ${rate('accepted')}/s accepted, ${rate('processed')}/s processed, ${rate('delivered')}/s delivered`;
}
