import { setTimeout as pause } from 'node:timers/promises';
import { EXIT, usageError } from '../cli-error.ts';
import type { Arguments, Command, Context } from '../command.ts';

const POLL_MS = 500;
/** The states in which a rebuild waits for an operator. */
const AT_REST = ['ready', 'switched', 'rolled-back', 'failed', 'cancelled', 'dropped'];
/** How far it had come is forgotten. */
const ENDED = ['cancelled', 'dropped'];
const ACTIONS = ['status', 'pause', 'resume', 'cancel', 'skip', 'switch', 'rollback', 'drop'];
/** After these actions the rebuild continues, and the command follows it. */
const FOLLOWED = ['resume', 'skip', 'switch', 'rollback'];

interface Rebuild {
  readonly status: string;
  readonly paused: boolean;
  readonly total: number;
  readonly done: number;
  readonly leftOut: number;
  readonly leftOutMessages: readonly {
    readonly id: string;
    readonly source: string;
    readonly error: string;
    readonly reason: string | null;
    readonly by: string;
  }[];
  readonly perSecond?: number;
  readonly secondsLeft?: number;
  readonly waitsFor?: string;
  readonly pauseMs?: number;
  readonly failure?: { readonly error: string; readonly id?: string };
  readonly diff?: {
    readonly tables: readonly { table: string; onlyOld: number; onlyNew: number; different: number }[];
  };
}

export const rebuild: Command = {
  name: 'rebuild',
  summary: 'Compute a read model from scratch next to the live one, compare the two, and switch.',
  usages: ['<read model> [--dry-run]', `<read model> ${ACTIONS.join('|')}`],
  options: {
    'dry-run': {
      type: 'boolean',
      about: 'Stop after the comparison; "switch" continues it, "cancel" ends it.',
    },
    'record-failures': {
      type: 'boolean',
      about: 'Leave out messages that fail, instead of stopping at the first.',
    },
    'accept-failures': { type: 'boolean', about: 'Switch even if --record-failures left messages out.' },
    'from-partial-history': { type: 'boolean', about: 'Rebuild even though older messages were removed.' },
    reason: { type: 'string', value: 'text', about: 'Why a message is left out; with "skip".' },
    detach: { type: 'boolean', about: 'Do not follow the progress.' },
  },
  async run(args, context) {
    const [model, action, ...more] = args.positionals;
    if (model === undefined || more.length > 0 || (action !== undefined && !ACTIONS.includes(action)))
      throw usageError(`give a read model, and one of ${ACTIONS.join(', ')}, or nothing to start`);
    if (action === 'skip' && !args.text('reason')) throw usageError('skip needs --reason <text>');
    const path = `/v1/read-models/${encodeURIComponent(model)}`;
    await begin(path, action, args, context);
    const isFollowed = !args.flag('detach') && (action === undefined || FOLLOWED.includes(action));
    const state = isFollowed ? await follow(path, context) : await stateOf(path, context);
    context.output.result(state, () => textOf(state));
    return state?.status === 'failed' ? EXIT.failed : EXIT.ok;
  },
};

async function begin(
  path: string,
  action: string | undefined,
  args: Arguments,
  { api }: Context,
): Promise<void> {
  if (action === 'status') return;
  const body = {
    dryRun: args.flag('dry-run'),
    recordFailures: args.flag('record-failures'),
    acceptFailures: args.flag('accept-failures'),
    partial: args.flag('from-partial-history'),
  };
  if (action === undefined) await api.call('POST', `${path}/rebuild`, { body });
  else if (action === 'skip')
    await api.call('POST', `${path}/rebuild/skip`, { body: { reason: args.text('reason') } });
  else await api.call('POST', `${path}/rebuild/${action}`);
}

async function stateOf(path: string, { api }: Context): Promise<Rebuild | null> {
  return ((await api.get(path)).body as { rebuild: Rebuild | null }).rebuild;
}

async function follow(path: string, context: Context): Promise<Rebuild | null> {
  for (;;) {
    const state = await stateOf(path, context);
    if (!state || AT_REST.includes(state.status) || state.paused || context.stopping.aborted) {
      if (state) context.output.progress(1, progressOf(state));
      return state;
    }
    context.output.progress(Math.min(0.99, state.done / Math.max(1, state.total)), progressOf(state));
    await pause(POLL_MS, undefined, { signal: context.stopping }).catch(() => undefined);
  }
}

function progressOf({ status, done, total, perSecond, secondsLeft, waitsFor }: Rebuild): string {
  if (ENDED.includes(status)) return status;
  const rate = perSecond ? `, ${Math.round(perSecond)}/s, ${Math.ceil(secondsLeft ?? 0)} s left` : '';
  // Messages that came since it began are read, too.
  return `${status}: ${done} of ${Math.max(done, total)}${rate}${waitsFor ? ` (${waitsFor})` : ''}`;
}

function textOf(state: Rebuild | null): string {
  if (!state) return 'it was never rebuilt\n';
  const lines = [progressOf(state)];
  for (const { table, onlyOld, onlyNew, different } of state.diff?.tables ?? [])
    lines.push(`  ${table}: ${onlyOld} only in the old, ${onlyNew} only in the new, ${different} different`);
  if (state.leftOut > 0) lines.push(...leftOutLines(state));
  if (state.failure)
    lines.push(
      `  stopped${state.failure.id ? ` at message ${state.failure.id}` : ''}: ${state.failure.error}`,
    );
  if (state.status === 'switched') lines.push(`  switched; no message was applied for ${state.pauseMs} ms`);
  return `${lines.join('\n')}\n`;
}

/** Pure. The API has no more than the first 100. */
export function leftOutLines({
  leftOut,
  leftOutMessages,
}: Pick<Rebuild, 'leftOut' | 'leftOutMessages'>): string[] {
  const lines = leftOutMessages.map(({ id, source, error, reason, by }) => {
    const decision = reason === null ? 'recorded' : `left out by ${by}: ${reason}`;
    return `    ${id} (${source}): ${error}; ${decision}`;
  });
  const more = leftOut - lines.length;
  return [`  ${leftOut} messages were left out`, ...lines, ...(more > 0 ? [`    and ${more} more`] : [])];
}
