import { Injectable } from '@nestjs/common';
import type { Message } from '../../contract/message.ts';
import type { ReadModelTransaction } from '../../contract/read-model-transaction.ts';
import { codeOf } from '../../database/errors.ts';
import { groupBy } from '../../database/group-by.ts';
import { TransactionTimeout } from '../../database/transaction.ts';
import type { ClaimedMessage } from '../inbox-queue.ts';
import { classFor, messageOf, withPayloadOf } from './applied-message.ts';
import type { DeclaredDenormalizer } from './declared-denormalizer.ts';
import { Denormalizers } from './denormalizers.ts';

/** What `prepare` returned for a message, by denormalizer; or what it threw. */
export interface Preparation {
  readonly results: ReadonlyMap<string, unknown>;
  readonly error: unknown;
}

export type PreparationsByMessage = ReadonlyMap<ClaimedMessage, Preparation>;

/** An `apply` failed: for which messages, and why. */
export class ApplyFailed extends Error {
  constructor(
    /** The messages that are known to have failed; empty if that is unknown (`applyBatch` got several). */
    readonly failed: readonly ClaimedMessage[],
    /** The error of the first of them. */
    readonly reason: unknown,
  ) {
    super('a denormalizer failed');
  }
}

/** Rejects if the work does not end in time. */
export type TimeLimit = <T>(work: Promise<T>) => Promise<T>;

/** One message and one denormalizer that handles it. */
interface Step {
  readonly row: ClaimedMessage;
  readonly denormalizer: DeclaredDenormalizer;
  readonly message: Message;
}

/** The denormalizer caused it: the connection worked, and it sent no query, or too many. */
class ApplyHung extends Error {
  constructor(cause: unknown) {
    super(`apply did not end (${(cause as Error).message}); calls to other systems belong in prepare`, {
      cause,
    });
    this.name = 'ApplyHung';
  }
}

/** The server ends a session that idles in a transaction for too long. */
const IDLE_IN_TRANSACTION = '25P03';

function isTimedOut(error: unknown): boolean {
  return error instanceof TransactionTimeout || codeOf(error) === IDLE_IN_TRANSACTION;
}

/** It hung without a query to the database: so did all messages that were being applied at that moment. */
export function hungWithoutQuery(reason: unknown): boolean {
  return reason instanceof ApplyHung && codeOf(reason.cause) === IDLE_IN_TRANSACTION;
}

/** The transaction had failed before, or a statement could not be prepared in it: a message with this error did not cause the failure. */
const ABORTED_BY_ANOTHER = ['25P02', '26000'];

/** Runs the denormalizers over a batch, inside its transaction. */
@Injectable()
export class DenormalizerRunner {
  constructor(private readonly denormalizers: Denormalizers) {}

  /**
   * Message by message within a key, and for each message one denormalizer after the other; different keys side by
   * side. Not one denormalizer over all messages and then the next: two that each handle one type of the same table
   * would then see a key's messages in the order of the denormalizers, not of the messages.
   * When the time limit is exceeded, the messages that were being applied at that moment have failed.
   */
  async apply(
    rows: readonly ClaimedMessage[],
    tx: ReadModelTransaction,
    prepared: PreparationsByMessage,
    timeLimit: TimeLimit = (work) => work,
  ): Promise<void> {
    const inProgress = new Set<ClaimedMessage>();
    try {
      await timeLimit(this.applyStages(this.stepsOf(rows), tx, prepared, inProgress));
    } catch (error) {
      throw isTimedOut(error) ? new ApplyFailed([...inProgress], new ApplyHung(error)) : error;
    }
  }

  private async applyStages(
    steps: readonly Step[],
    tx: ReadModelTransaction,
    prepared: PreparationsByMessage,
    inProgress: Set<ClaimedMessage>,
  ): Promise<void> {
    for (const stage of this.denormalizers.stages) {
      const own = steps.filter(({ denormalizer }) => stage.has(denormalizer));
      if (own.length === 0) continue;
      if (own[0]!.denormalizer.instance.applyBatch) await applyTogether(own, tx, inProgress);
      else await applyEach(own, tx, prepared, inProgress);
    }
  }

  /** Payloads are checked before the first statement: a bad one causes no work for the other messages. */
  private stepsOf(rows: readonly ClaimedMessage[]): Step[] {
    const failures: ApplyFailed[] = [];
    const steps = rows.flatMap((row) => {
      try {
        return this.stepsOfOne(row);
      } catch (reason) {
        failures.push(new ApplyFailed([row], reason));
        return [];
      }
    });
    throwAny(failures);
    return steps;
  }

  private stepsOfOne(row: ClaimedMessage): Step[] {
    const denormalizers = this.denormalizers.of(row.type);
    if (denormalizers.length === 0) return [];
    const plain = messageOf(row);
    // The check takes longer than everything else for a message: denormalizers with the same class share the instance.
    const checked = new Map<unknown, Message>();
    return denormalizers.map((denormalizer) => {
      const type = classFor(row.type, denormalizer.options.payload);
      const message = checked.get(type) ?? withPayloadOf(plain, type);
      checked.set(type, message);
      return { row, denormalizer, message };
    });
  }
}

async function applyTogether(
  steps: readonly Step[],
  tx: ReadModelTransaction,
  inProgress: Set<ClaimedMessage>,
): Promise<void> {
  const [{ denormalizer, row }] = steps as [Step];
  const messages = steps.map(({ message }) => message);
  for (const step of steps) inProgress.add(step.row);
  try {
    await denormalizer.instance.applyBatch!(messages, tx);
  } catch (reason) {
    throw new ApplyFailed(steps.length === 1 ? [row] : [], reason);
  }
  inProgress.clear();
}

async function applyEach(
  steps: readonly Step[],
  tx: ReadModelTransaction,
  prepared: PreparationsByMessage,
  inProgress: Set<ClaimedMessage>,
): Promise<void> {
  await allOrFirstFailure(
    chains(steps).map(async (chain) => {
      for (const { row, denormalizer, message } of chain) {
        inProgress.add(row);
        try {
          await denormalizer.instance.apply!(message, tx, prepared.get(row)?.results.get(denormalizer.name));
        } catch (reason) {
          throw new ApplyFailed([row], reason);
        } finally {
          inProgress.delete(row);
        }
      }
    }),
  );
}

/** One chain per key; all keys that a sequential denormalizer handles share one chain, ''. No key is empty. */
function chains(steps: readonly Step[]): Step[][] {
  const sequential = new Set(
    steps.filter(({ denormalizer }) => denormalizer.options.sequential).map(({ row }) => row.key),
  );
  return groupBy(steps, ({ row }) => (sequential.has(row.key) ? '' : row.key));
}

/** Waits for all: no statement may still be in flight afterwards. Reports the messages that failed by themselves. */
async function allOrFirstFailure(chains: readonly Promise<void>[]): Promise<void> {
  const results = await Promise.allSettled(chains);
  const failures = results.flatMap((result) =>
    result.status === 'rejected' ? [result.reason as ApplyFailed] : [],
  );
  throwAny(failures.filter(({ reason }) => !ABORTED_BY_ANOTHER.includes(codeOf(reason) ?? '')));
  if (failures.length) throw new ApplyFailed([], failures[0]!.reason);
}

function throwAny(failures: readonly ApplyFailed[]): void {
  const [first] = failures;
  if (first)
    throw new ApplyFailed(
      failures.flatMap(({ failed }) => failed),
      first.reason,
    );
}
