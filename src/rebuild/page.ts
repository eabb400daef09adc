import type { Place } from '../history/history-message.ts';
import type { ClaimedMessage } from '../inbox/inbox-queue.ts';
import type { ReplayMessage } from './lane-source.ts';
import type { LaneCursor } from './rebuild.ts';

/** Messages of lanes, and where these lanes were when they were read. */
export interface Page {
  readonly from: readonly LaneCursor[];
  readonly rows: readonly ReplayMessage[];
  /** The page has all that the history of a lane group has in a stretch, together with what the inbox has there. */
  readonly history?: HistoryStep;
}

export interface HistoryStep {
  readonly group: number;
  readonly from: Place;
  /** Undefined: to the end of history. */
  readonly to: Place | undefined;
  /** Messages of the stretch that are not for the read model. */
  readonly passed: number;
}

/**
 * Smaller pages of a page that failed, each a continuation of the one before: around the message that is known, else halves.
 * None of them moves on in history: the next page begins at the same place of it, without what its lanes have applied.
 */
export function partsOf({ from, rows }: Page, failed: readonly ClaimedMessage[]): Page[] {
  const culprit = failed[0] && rows.find(({ position }) => position === failed[0]!.position);
  const lane = culprit?.lane;
  const lanes = [...new Set(rows.map((row) => row.lane))];
  if (culprit && lanes.length > 1) return [pageOf(from, rows, (row) => row.lane === lane)];
  if (culprit) return sequence(from, [rows.slice(0, rows.indexOf(culprit)), [culprit]]);
  if (lanes.length > 1) {
    const half = new Set(lanes.slice(0, Math.ceil(lanes.length / 2)));
    return [
      pageOf(from, rows, (row) => half.has(row.lane)),
      pageOf(from, rows, (row) => !half.has(row.lane)),
    ];
  }
  const middle = Math.ceil(rows.length / 2);
  return sequence(from, [rows.slice(0, middle), rows.slice(middle)]);
}

function pageOf(
  from: readonly LaneCursor[],
  rows: readonly ReplayMessage[],
  which: (row: ReplayMessage) => boolean,
): Page {
  const own = rows.filter(which);
  const lanes = new Set(own.map(({ lane }) => lane));
  return { from: from.filter(({ lane }) => lanes.has(lane)), rows: own };
}

/** Parts of one lane: each begins where the one before ended. */
function sequence(from: readonly LaneCursor[], parts: readonly ReplayMessage[][]): Page[] {
  let start = from.filter(({ lane }) => lane === parts.flat()[0]!.lane);
  return parts.flatMap((rows) => {
    if (rows.length === 0) return [];
    const page = { from: start, rows };
    const { lane, applied, position } = rows.at(-1)!;
    start = [{ lane, applied, position }];
    return [page];
  });
}
