import { setTimeout as pause } from 'node:timers/promises';
import type { Api } from '../api.ts';
import { CliError, EXIT, usageError } from '../cli-error.ts';
import type { Arguments, Command, Context } from '../command.ts';
import { type Column, table } from '../output.ts';

interface Cell {
  readonly name: string;
  readonly state: string;
  readonly home: boolean;
  readonly slots: number;
  readonly ranges: string;
  readonly reason: string | null;
}

interface Move {
  readonly id: string;
  readonly slot: number;
  readonly from: string;
  readonly to: string;
  readonly state: string;
  readonly rows: number | null;
  readonly pauseMs: number | null;
  readonly error: string | null;
  readonly endedAt: string | null;
}

const POLL_MS = 500;

export const cells: Command = {
  name: 'cells',
  summary: 'List cells and their slots, move slots to a cell, or list such moves.',
  usages: ['', 'move <cell> <slots> [--no-wait]', 'moves'],
  options: { 'no-wait': { type: 'boolean', about: 'Return when the moves are requested.' } },
  async run(args, context) {
    const [action, ...more] = args.positionals;
    if (action === 'move') return move(more, args, context);
    if (more.length > 0 || (action !== undefined && action !== 'moves'))
      throw usageError('the forms are: sluice cells, sluice cells move <cell> <slots>, sluice cells moves');
    const { api, output } = context;
    if (action === 'moves') {
      const { body } = await api.get('/v1/cells/moves');
      output.result(body, (limit) => renderMoves(body.items, limit));
    } else {
      const { body } = await api.get('/v1/cells');
      output.result(body, (limit) => table(body.items as Cell[], CELL_COLUMNS, limit));
    }
    return EXIT.ok;
  },
};

const CELL_COLUMNS: readonly Column<Cell>[] = [
  { title: 'CELL', of: ({ name, home }) => (home ? `${name} (home)` : name) },
  { title: 'STATE', of: ({ state }) => state },
  { title: 'SLOTS', of: ({ slots }) => slots, right: true },
  { title: 'RANGES', of: ({ ranges }) => ranges },
  { title: 'WHY', of: ({ reason }) => reason, whole: true },
];

const MOVE_COLUMNS: readonly Column<Move>[] = [
  { title: 'SLOT', of: ({ slot }) => slot, right: true },
  { title: 'FROM', of: ({ from }) => from },
  { title: 'TO', of: ({ to }) => to },
  { title: 'STATE', of: ({ state }) => state },
  { title: 'ROWS', of: ({ rows }) => rows, right: true },
  { title: 'PAUSE MS', of: ({ pauseMs }) => pauseMs, right: true },
  { title: 'WHY', of: ({ error }) => error, whole: true },
];

function renderMoves(items: readonly Move[], cellLimit: number): string {
  return items.length === 0 ? 'no moves\n' : table(items, MOVE_COLUMNS, cellLimit);
}

async function move(
  [cell, slots, ...more]: readonly string[],
  args: Arguments,
  { api, output, stopping }: Context,
): Promise<number> {
  if (cell === undefined || slots === undefined || more.length > 0)
    throw usageError('give a cell and slots: sluice cells move <cell> 0-15,130');
  const { body } = await api.call('POST', `/v1/cells/${encodeURIComponent(cell)}/slots`, { body: { slots } });
  const ids = (body.items as Move[]).map(({ id }) => id);
  const items = args.flag('no-wait') ? (body.items as Move[]) : await untilEnded(api, ids, output, stopping);
  output.result({ items }, (limit) =>
    items.length === 0 ? `nothing to move: the slots are in ${cell}\n` : renderMoves(items, limit),
  );
  const undone = items.find(({ state }) => state === 'undone');
  if (undone) throw new CliError(`slot ${undone.slot} was not moved: ${undone.error}`, EXIT.failed);
  return EXIT.ok;
}

/** Shows the progress; a move that is not listed any more has ended long ago. */
async function untilEnded(
  api: Api,
  ids: readonly string[],
  output: Context['output'],
  stopping: AbortSignal,
): Promise<Move[]> {
  const known = new Map<string, Move>();
  for (;;) {
    const { body } = await api.get('/v1/cells/moves');
    for (const one of body.items as Move[]) if (ids.includes(one.id)) known.set(one.id, one);
    const ended = [...known.values()].filter(({ endedAt }) => endedAt !== null).length;
    if (ids.length > 0) output.progress(ended / ids.length, `${ended} of ${ids.length} slots`);
    if (ended === ids.length || stopping.aborted) return [...known.values()];
    await pause(POLL_MS, undefined, { signal: stopping }).catch(() => undefined);
  }
}
