import type { Place } from '../history/history-message.ts';
import type { ClaimedMessage } from '../inbox/inbox-queue.ts';
import type { ReplayMessage } from './lane-source.ts';
import type { LaneCursor } from './rebuild.ts';
import type { Prepared } from './rebuild-preparations.ts';

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
 * Smaller pages of a page that failed, each a continuation of the one before: around messages that are known, else halves.
 * None of them moves on in history: the next page begins at the same place of it, without what its lanes have applied.
 */
export function partsOf({ from, rows }: Page, failed: readonly ClaimedMessage[]): Page[] {
  const lanes = [...new Set(rows.map((row) => row.lane))];
  const positions = new Set(failed.map(({ position }) => position));
  const culprits = rows.filter(({ position }) => positions.has(position));
  const among = new Set(culprits.map(({ lane }) => lane));
  if (lanes.length > 1) {
    const apart = (which: readonly number[]) => pageOf(from, rows, ({ lane }) => which.includes(lane));
    if (culprits.length === 0) return halves(lanes).map(apart);
    const others = lanes.filter((lane) => !among.has(lane));
    return [apart(others), ...[...among].map((lane) => apart([lane]))].filter((page) => page.rows.length > 0);
  }
  const [culprit] = culprits;
  if (!culprit) return sequence(from, halves(rows));
  const at = rows.indexOf(culprit);
  return sequence(from, [rows.slice(0, at), [culprit], rows.slice(at + 1)]);
}

/** The next messages of their lanes whose `prepare` failed. */
export function headsThatFailed({ from, rows }: Page, prepared: Prepared) {
  return from.flatMap((at) => {
    const row = rows.find(({ lane }) => lane === at.lane);
    const reason = row && prepared.get(row.position)?.error;
    return reason === undefined ? [] : [{ row: row!, at, reason }];
  });
}

/** Of each lane, what comes before the first message whose `prepare` failed. */
export function untilFailed(page: Page, prepared: Prepared): Page {
  const failed = new Set<number>();
  const part = pageOf(page.from, page.rows, ({ lane, position }) => {
    if (prepared.get(position)?.error !== undefined) failed.add(lane);
    return !failed.has(lane);
  });
  return failed.size > 0 ? part : page;
}

function halves<One>(all: readonly One[]): One[][] {
  const middle = Math.ceil(all.length / 2);
  return [all.slice(0, middle), all.slice(middle)];
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
function sequence(from: readonly LaneCursor[], parts: readonly (readonly ReplayMessage[])[]): Page[] {
  let start = from.filter(({ lane }) => lane === parts.flat()[0]!.lane);
  return parts.flatMap((rows) => {
    if (rows.length === 0) return [];
    const page = { from: start, rows };
    const { lane, applied, position } = rows.at(-1)!;
    start = [{ lane, applied, position }];
    return [page];
  });
}
