import { Injectable } from '@nestjs/common';
import type { Transaction } from '../database/transaction.ts';
import type { PiggybackLease } from '../lanes/lane-queue-types.ts';
import { Piggyback } from '../lanes/piggyback.ts';
import {
  type Comparison,
  IngestStore,
  type InsertedMessage,
  identity,
  type ProducerName,
} from './ingest-store.ts';
import type { Status } from './messages-store.ts';
import { type NewMessage, sourceOfCaller } from './new-message.ts';
import { judge, type Range, type Verdict } from './producer-sequence.ts';

export type Refusal =
  | { readonly kind: 'conflict'; readonly id: string }
  | { readonly kind: 'too-many-gaps'; readonly id: string };

/** The result of one posted message. */
export type Outcome =
  | {
      readonly kind: 'accepted';
      readonly id: string;
      readonly status: Status;
      readonly gap?: Range;
      readonly gapFilled?: true;
      /** It was claimed in the transaction that stored it: no worker need be woken. */
      readonly claimed?: true;
    }
  | {
      readonly kind: 'duplicate';
      readonly id: string;
      readonly status: Status;
      readonly knownBy: 'id' | 'sequence';
      readonly gap?: Range;
      readonly gapFilled?: true;
    }
  | Refusal;

/** Rolls a transaction back; carries the outcomes. */
class Refused extends Error {
  constructor(readonly outcomes: readonly Outcome[]) {
    super('refused');
  }
}

/** Stores each posted message once, and returns an outcome for each. */
@Injectable()
export class MessageAcceptor {
  constructor(
    private readonly store: IngestStore,
    private readonly piggyback: Piggyback,
  ) {}

  /** Independent messages in one commit: the hot path is one statement. */
  async acceptSingles(messages: readonly NewMessage[]): Promise<readonly Outcome[]> {
    const [only] = messages.length === 1 ? messages : [];
    const piggyback =
      only && !only.producer && !only.dueAt
        ? this.piggyback.leaseFor('inbox', new Set([only.lane]))
        : undefined;
    if (piggyback) return this.acceptWithPiggyback(only!, piggyback);
    if (!messages.some((message) => message.producer)) return this.insert(messages);
    const outcomes = new Map<NewMessage, Outcome>();
    for (let rest = messages; rest.length > 0; rest = rest.filter((message) => !outcomes.has(message))) {
      const tried = await this.acceptUnless(consumedSequence, rest);
      const undone = rest.some((message, index) => consumedSequence(tried[index]!, message));
      // A refused message must not use up its sequence number, nor roll back the others: they are stored without it.
      rest.forEach((message, index) => {
        if (!undone || isRefusal(tried[index]!)) outcomes.set(message, tried[index]!);
      });
    }
    return messages.map((message) => outcomes.get(message)!);
  }

  /** All or nothing: one refused message rolls all of them back. */
  acceptBatch(messages: readonly NewMessage[]): Promise<readonly Outcome[]> {
    return this.acceptUnless(isRefusal, messages);
  }

  private async acceptUnless(
    undoes: (outcome: Outcome, message: NewMessage) => boolean,
    messages: readonly NewMessage[],
  ): Promise<readonly Outcome[]> {
    try {
      return await this.store.transaction(async (tx) => {
        const outcomes = await this.acceptSequenced(messages, tx);
        if (outcomes.some((outcome, index) => undoes(outcome, messages[index]!))) throw new Refused(outcomes);
        return outcomes;
      });
    } catch (error) {
      if (error instanceof Refused) return error.outcomes;
      throw error;
    }
  }

  /** A single message need not wait for a worker to find it: its lane is leased in the transaction that stores it. */
  private async acceptWithPiggyback(
    message: NewMessage,
    piggyback: PiggybackLease<unknown>,
  ): Promise<readonly Outcome[]> {
    const { inserted, results } = await this.store
      .insertWithPiggyback(message, piggyback.statements)
      .catch((error) => {
        piggyback.failed(error);
        throw error;
      });
    // This hands the message to the worker that made the lease, which begins at once.
    const claimed = piggyback.leased(results) !== undefined;
    // The next statements are sent before the response is written, not after it.
    if (claimed) await new Promise(setImmediate);
    const [outcome] = await this.outcomesOf([message], inserted);
    return [claimed && outcome!.kind === 'accepted' ? { ...outcome!, claimed } : outcome!];
  }

  private async insert(messages: readonly NewMessage[], tx?: Transaction): Promise<readonly Outcome[]> {
    if (messages.length === 0) return [];
    return this.outcomesOf(messages, await this.store.insertNew(messages, tx), tx);
  }

  private async outcomesOf(
    messages: readonly NewMessage[],
    rows: readonly InsertedMessage[],
    tx?: Transaction,
  ): Promise<readonly Outcome[]> {
    if (rows.length === messages.length && rows.every(({ status }) => status === 'pending')) {
      return messages.map(({ id }) => ({ kind: 'accepted', id, status: 'pending' }));
    }
    const inserted = new Map(rows.map((row) => [identity(row), row.status]));
    if (rows.length === messages.length) return messages.map((message) => accepted(message, inserted));
    return this.withDuplicates(messages, inserted, tx);
  }

  /** Of messages with the same identity in one flush, the first one is stored and the others are duplicates. */
  private async withDuplicates(
    messages: readonly NewMessage[],
    inserted: ReadonlyMap<string, Status>,
    tx: Transaction | undefined,
  ): Promise<readonly Outcome[]> {
    const compared = await this.store.compare(messages, tx);
    const remaining = new Set(inserted.keys());
    return messages.map((message, index) =>
      remaining.delete(identity(message))
        ? accepted(message, inserted)
        : duplicate(message, compared.get(index)),
    );
  }

  /** Sequence numbers first: a message that the producer's sequence knows as a duplicate is not inserted. */
  private async acceptSequenced(
    messages: readonly NewMessage[],
    tx: Transaction,
  ): Promise<readonly Outcome[]> {
    const verdicts = await this.judgeSequences(messages, tx);
    const fresh = messages.filter((message) => isNew(verdicts.get(message)));
    const stored = await this.insert(fresh, tx);
    // A message can be kept longer than the state of its producer: then only its row has the number.
    const repeats = messages.filter(
      (message) =>
        verdicts.get(message)?.kind === 'seen' ||
        (message.producer && stored[fresh.indexOf(message)]?.kind === 'duplicate'),
    );
    const originals = repeats.length ? await this.store.findSequences(repeats, tx) : new Map();
    return messages.map((message) => {
      const verdict = verdicts.get(message);
      if (verdict?.kind === 'too-many-gaps') return { kind: 'too-many-gaps', id: message.id };
      const original = originals.get(repeats.indexOf(message));
      if (verdict?.kind === 'seen' || (original && original.id !== message.id)) {
        // The row is deleted when its retention is over; its number stays known.
        return {
          kind: 'duplicate',
          id: original?.id ?? message.id,
          status: original?.status ?? 'finished',
          knownBy: 'sequence',
        };
      }
      return withGap(stored[fresh.indexOf(message)]!, verdict);
    });
  }

  private async judgeSequences(
    messages: readonly NewMessage[],
    tx: Transaction,
  ): Promise<Map<NewMessage, Verdict>> {
    const verdicts = new Map<NewMessage, Verdict>();
    const sequenced = messages.filter((message) => message.producer);
    if (sequenced.length === 0) return verdicts;
    const names = new Map(sequenced.map(producerOf).map((name) => [identity(name), name]));
    const states = await this.store.lockProducers([...names.values()], tx);
    for (const message of sequenced) {
      const name = identity(producerOf(message));
      const [verdict, next] = judge(states.get(name)!, message.producer!.sequence);
      states.set(name, next);
      verdicts.set(message, verdict);
    }
    await this.store.saveProducers(
      [...names].map(([name, producer]) => ({ ...producer, ...states.get(name)! })),
      tx,
    );
    return verdicts;
  }
}

function producerOf({ producer }: NewMessage): ProducerName {
  return { source: sourceOfCaller(producer!.caller), id: producer!.id };
}

function isNew(verdict: Verdict | undefined): boolean {
  return verdict?.kind !== 'seen' && verdict?.kind !== 'too-many-gaps';
}

/** Also for a duplicate by id: its number is used now, so this is the only chance to report a gap before it. */
function withGap(outcome: Outcome, verdict: Verdict | undefined): Outcome {
  if (isRefusal(outcome)) return outcome;
  if (verdict?.kind === 'jump') return { ...outcome, gap: verdict.gap };
  return verdict?.kind === 'filler' ? { ...outcome, gapFilled: true } : outcome;
}

function accepted(message: NewMessage, inserted: ReadonlyMap<string, Status>): Outcome {
  return { kind: 'accepted', id: message.id, status: inserted.get(identity(message))! };
}

function duplicate(message: NewMessage, stored: Comparison | undefined): Outcome {
  if (stored && !stored.same) return { kind: 'conflict', id: message.id };
  return { kind: 'duplicate', id: message.id, status: stored?.status ?? 'finished', knownBy: 'id' };
}

/** The sequence number was judged before the id was found to be taken. */
function consumedSequence(outcome: Outcome, { producer }: NewMessage): boolean {
  return outcome.kind === 'conflict' && producer !== undefined;
}

export function isRefusal(outcome: Outcome): outcome is Refusal {
  return outcome.kind === 'conflict' || outcome.kind === 'too-many-gaps';
}
