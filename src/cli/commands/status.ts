import { setTimeout as pause } from 'node:timers/promises';
import type { Api } from '../api.ts';
import { CliError, EXIT, usageError } from '../cli-error.ts';
import type { Command } from '../command.ts';
import { type Output, secondsText, table } from '../output.ts';
import { Samples } from '../samples.ts';

interface Queue {
  readonly ready: number;
  readonly held: number;
  readonly oldestSeconds: number;
  readonly deadLetters: number;
}

interface Backlog {
  readonly inbox: Queue & { readonly scheduled: number };
  readonly listeners: readonly (Queue & { readonly name: string; readonly circuitOpen: boolean })[];
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
    every: { type: 'string', value: 'seconds', about: 'Refresh interval (default 2).' },
  },
  async run(args, { api, output, stopping }) {
    const everyMs = Number(args.text('every') ?? 2) * 1_000;
    if (!(everyMs >= 100)) throw usageError('--every must be at least 0.1 seconds');
    if (args.flag('once')) {
      const now = await fetchStatus(api);
      output.result(now, (limit) => render(now, undefined, limit));
      return now.ready && now.alive ? EXIT.ok : EXIT.failed;
    }
    let before: Status | undefined;
    while (!stopping.aborted) {
      before = await refresh(before, api, output);
      await pause(everyMs, undefined, { signal: stopping }).catch(() => undefined);
    }
    return EXIT.ok;
  },
};

/** Shows an outage instead of ending with an error, unless the first request already fails. */
async function refresh(before: Status | undefined, api: Api, output: Output): Promise<Status> {
  try {
    const now = await fetchStatus(api);
    output.screen(now, (limit) => render(now, before, limit));
    return now;
  } catch (error) {
    if (!before || !(error instanceof CliError && error.transient)) throw error;
    const { message } = error;
    const at = new Date().toISOString();
    output.screen(
      { at, url: api.url, error: message },
      (limit) => `${timeOf(at)}  ${message}\n\n${render(before, undefined, limit)}`,
    );
    return before;
  }
}

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
  const { inbox, listeners: queues } = backlog.body as Backlog;
  return {
    at: new Date().toISOString(),
    url: api.url,
    ready: ready.status === 200,
    alive: alive.status === 200,
    inbox,
    listeners: queues.map((queue) => ({ ...queue, state: states.get(queue.name) ?? 'deleted' })),
    counts: {
      since: samples.max('process_start_time_seconds') ?? 0,
      accepted: samples.sum('messages_accepted_total') ?? 0,
      processed: samples.sum('messages_ended_total') ?? 0,
      delivered: samples.sum('deliveries_attempted_total', { outcome: 'delivered' }) ?? 0,
    },
  };
}

function render(now: Status, before: Status | undefined, cellLimit: number): string {
  const { inbox, listeners } = now;
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
    listeners.length === 0
      ? 'no listeners\n'
      : table(
          listeners,
          [
            { title: 'LISTENER', of: ({ name }) => name },
            { title: 'STATE', of: ({ state, circuitOpen }) => (circuitOpen ? 'circuit open' : state) },
            { title: 'READY', of: ({ ready }) => ready, right: true },
            { title: 'HELD', of: ({ held }) => held, right: true },
            { title: 'OLDEST', of: ({ oldestSeconds }) => secondsText(oldestSeconds), right: true },
            { title: 'DEAD', of: ({ deadLetters }) => deadLetters, right: true },
          ],
          cellLimit,
        ),
  ];
  return lines.join('\n');
}

function timeOf(at: string): string {
  return `${at.slice(11, 19)} UTC`;
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
