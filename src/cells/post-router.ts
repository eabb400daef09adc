import { setTimeout as pause } from 'node:timers/promises';
import { codeOf, isDatabaseAway } from '../database/errors.ts';
import { NOT_OF_THIS_CELL, problemOf } from '../http/problem-of.ts';
import { Problem } from '../http/problems.ts';
import { Ingest } from '../inbox/ingest.ts';
import { IngestMetrics } from '../inbox/ingest-metrics.ts';
import { isRefusal, type Outcome } from '../inbox/message-acceptor.ts';
import type { MessageRouter } from '../inbox/message-router.ts';
import type { PostedMessages } from '../inbox/read-request.ts';
import type { Catalogue } from './catalogue.ts';
import { type Cell, cellAway, slotMoves } from './cell.ts';

/** A message of a slot that is being moved waits this long before it is answered 503. */
const MAX_PAUSE_MS = 2_000;
const POLL_MS = 20;

/** The part of a post that one cell stores. */
interface Part {
  /** Undefined: their slots are being moved. */
  readonly cell: number | undefined;
  /** Where its messages are in the whole post. */
  readonly indexes: readonly number[];
}

/** Stores each message in the cell of its key. */
export class PostRouter implements MessageRouter {
  constructor(
    private readonly catalogue: Catalogue,
    private readonly cellOf: (number: number) => Cell | undefined,
  ) {}

  async post(posted: PostedMessages): Promise<readonly Outcome[]> {
    refuseSequences(posted);
    const outcomes = new Array<Outcome>(posted.messages.length);
    try {
      await this.store(posted, [...posted.messages.keys()], outcomes, performance.now() + MAX_PAUSE_MS);
      return outcomes;
    } catch (error) {
      throw withUnstored(error, posted, outcomes);
    }
  }

  /** Stores the messages at these indexes, in as many cells as they belong to. */
  private async store(
    posted: PostedMessages,
    indexes: readonly number[],
    outcomes: Outcome[],
    untilMs: number,
  ): Promise<void> {
    const parts = this.partsOf(posted, indexes);
    const stored = await Promise.allSettled(
      parts.map((part) => this.storePart(posted, part, outcomes, untilMs)),
    );
    const failed = stored.find((one) => one.status === 'rejected');
    if (failed) throw failed.reason;
  }

  private async storePart(
    posted: PostedMessages,
    part: Part,
    outcomes: Outcome[],
    untilMs: number,
  ): Promise<void> {
    const { cell, indexes } = part;
    try {
      if (cell === undefined) throw slotMoves();
      const found = await this.postTo(cell, partOf(posted, indexes));
      for (const [nth, outcome] of found.entries()) outcomes[indexes[nth]!] = outcome;
    } catch (error) {
      if (cell !== undefined && isDatabaseAway(error)) this.cellOf(cell)?.suspect();
      const isElsewhere = cell === undefined || codeOf(error) === NOT_OF_THIS_CELL;
      if (!isElsewhere || performance.now() >= untilMs) throw error;
      // The slot moves, or has moved: nothing was stored.
      await pause(POLL_MS);
      await this.catalogue.refresh().catch(() => undefined);
      await this.store(posted, indexes, outcomes, untilMs);
    }
  }

  private async postTo(number: number, posted: PostedMessages): Promise<readonly Outcome[]> {
    const { nest } = this.running(number);
    const outcomes = await nest.get(Ingest, { strict: false }).post(posted);
    if (!outcomes.some(isRefusal)) nest.get(IngestMetrics, { strict: false }).count(outcomes);
    return outcomes;
  }

  private running(number: number) {
    const cell = this.cellOf(number);
    if (cell) return cell.running;
    throw cellAway(this.catalogue.nameOf(number), 'it is not in CELLS of this replica');
  }

  private partsOf({ messages }: PostedMessages, indexes: readonly number[]): Part[] {
    const parts = new Map<number | undefined, number[]>();
    for (const index of indexes) {
      const slot = this.catalogue.slot(messages[index]!.lane);
      const cell = slot.moving_to === null ? slot.cell : undefined;
      const part = parts.get(cell);
      if (part) part.push(index);
      else parts.set(cell, [index]);
    }
    return [...parts].map(([cell, indexesOfCell]) => ({ cell, indexes: indexesOfCell }));
  }
}

/** Not copied if it is the whole post, which is the usual case. */
function partOf(posted: PostedMessages, indexes: readonly number[]): PostedMessages {
  if (indexes.length === posted.messages.length) return posted;
  return { ...posted, messages: indexes.map((index) => posted.messages[index]!) };
}

/** The numbers of a producer go over all its keys, and a cell sees only some of them: it would report gaps that are none. */
function refuseSequences({ messages }: PostedMessages): void {
  if (messages.every(({ producer }) => producer === undefined)) return;
  throw new Problem('invalid', 'Producer-Sequence is not available with CELLS; give each message an id.', {
    errors: [{ pointer: '', detail: 'the header Producer-Sequence is not available with CELLS' }],
  });
}

const MAX_LISTED = 50;

/** A batch is all or nothing in each cell: if one of them fails, the response lists what the others have not stored. */
function withUnstored(
  error: unknown,
  { batch, pointer }: PostedMessages,
  outcomes: readonly Outcome[],
): unknown {
  const unstored = [...outcomes.keys()].filter((index) => outcomes[index] === undefined);
  if (!batch || unstored.length === outcomes.length) return error;
  const { problem, detail, more } = problemOf(error);
  const errors = unstored
    .slice(0, MAX_LISTED)
    .map((index) => ({ pointer: `${pointer}/${index}`, detail: 'was not stored, as far as is known' }));
  const stored = outcomes.length - unstored.length;
  return new Problem(problem, `${detail} Of the ${outcomes.length} messages, ${stored} are stored.`, {
    ...more,
    errors,
  });
}
