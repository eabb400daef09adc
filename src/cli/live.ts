import { setTimeout as pause } from 'node:timers/promises';
import { CliError, usageError } from './cli-error.ts';
import type { Arguments, Context, Option } from './command.ts';

export const EVERY: Option = {
  type: 'string',
  value: 'seconds',
  about: 'Refresh interval (default 2).',
};

export function everyOf(args: Arguments): number {
  const everyMs = Number(args.text('every') ?? 2) * 1_000;
  if (!(everyMs >= 100)) throw usageError('--every must be at least 0.1 seconds');
  return everyMs;
}

/** What a command fetches and shows. */
export interface View<Value> {
  fetch(): Promise<Value>;
  /** `before`: what was shown before, unless there was an outage since. */
  render(now: Value, before: Value | undefined, cellLimit: number): string;
}

/** Once, or live if an interval is given. */
export async function show<Value>(
  view: View<Value>,
  everyMs: number | undefined,
  context: Context,
): Promise<void> {
  if (everyMs !== undefined) return showLive(view, everyMs, context);
  const now = await view.fetch();
  context.output.result(now, (limit) => view.render(now, undefined, limit));
}

/** Shows a view again and again until Ctrl-C. An outage is shown, too, unless the first request already fails. */
async function showLive<Value>(view: View<Value>, everyMs: number, context: Context): Promise<void> {
  let before: Value | undefined;
  while (!context.stopping.aborted) {
    before = await refresh(view, before, context);
    await pause(everyMs, undefined, { signal: context.stopping }).catch(() => undefined);
  }
}

async function refresh<Value>(
  { fetch, render }: View<Value>,
  before: Value | undefined,
  { api, output }: Context,
): Promise<Value> {
  try {
    const now = await fetch();
    output.screen(now, (limit) => render(now, before, limit));
    return now;
  } catch (error) {
    if (before === undefined || !(error instanceof CliError && error.transient)) throw error;
    const { message } = error;
    const at = new Date().toISOString();
    const last = before;
    output.screen(
      { at, url: api.url, error: message },
      (limit) => `${timeOf(at)}  ${message}\n\n${render(last, undefined, limit)}`,
    );
    return before;
  }
}

export function timeOf(at: string): string {
  return `${at.slice(11, 19)} UTC`;
}
