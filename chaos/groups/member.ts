import type { Api, Reply } from '../api.ts';
import type { Random } from '../random.ts';
import {
  type ConsumerCall,
  type Place,
  placeName,
  type ReceivedBatch,
  type SentCommit,
} from './group-history.ts';

/** How far the member is in a partition. */
interface Position extends Place {
  /** The offset that it expects next. */
  next: number;
  /** The last offset that it processed. */
  processed: number;
  /** The last offset that it knows to be committed. */
  committed: number;
  /** What it has to reject with its next commit. */
  readonly rejected: { readonly offset: number; readonly reason: string }[];
}

interface Assigned extends Place {
  readonly committed: number;
}

interface Polled {
  readonly assigned: readonly Assigned[];
  readonly draining: readonly Assigned[];
  readonly committed: readonly { readonly outcome: NonNullable<SentCommit['outcome']> }[];
  readonly batches: readonly ReceivedBatch[];
}

export interface PollOptions {
  readonly max: number;
  readonly waitMs: number;
  /** Commits what was processed, with the poll. */
  readonly commit?: boolean;
  readonly signal?: AbortSignal;
}

/** Batches that follow on what the member has; gone: it is no longer a member; lost: there was no response. */
export type PollEnd = readonly ReceivedBatch[] | 'gone' | 'lost';

/** For the server to return an empty poll, and for a slow machine. */
const RESPONSE_MS = 2_500;

/** A member of a group that keeps to the protocol, and records every call. */
export class Member {
  private readonly positions = new Map<string, Position>();

  private constructor(
    private readonly api: Api,
    private readonly random: Random,
    private readonly calls: ConsumerCall[],
    readonly group: string,
    readonly id: string,
  ) {}

  /** Undefined: there was no response. */
  static async join(
    api: Api,
    random: Random,
    calls: ConsumerCall[],
    group: string,
    name: string,
  ): Promise<Member | undefined> {
    const options = { body: { name }, expected: [201] };
    const reply = await api.call('POST', `/v1/groups/${group}/members`, random, options);
    if (reply?.status !== 201) return undefined;
    const joined = reply.body as { member: string; assigned: readonly Assigned[] };
    const member = new Member(api, random, calls, group, joined.member);
    member.adopt(joined.assigned);
    return member;
  }

  async poll({ max, waitMs, commit = false, signal }: PollOptions): Promise<PollEnd> {
    const commits = commit ? this.uncommitted() : [];
    const next = [...this.positions.values()].map(({ topic, partition, fence, next }) => ({
      topic,
      partition,
      fence,
      next,
    }));
    const sentMs = Date.now();
    const reply = await this.api.call('POST', `/v1/groups/${this.group}/poll`, this.random, {
      body: { member: this.id, max, wait: `${waitMs}ms`, next, commit: commits },
      expected: [200, 404, 409],
      timeoutMs: waitMs + RESPONSE_MS,
      ...(signal ? { signal } : {}),
    });
    const polled = reply?.status === 200 ? (reply.body as Polled) : undefined;
    const outcomes = polled?.committed.map(({ outcome }) => outcome);
    this.record('poll', sentMs, reply, { commits, outcomes, next, batches: polled?.batches.map(kept) ?? [] });
    if (!polled) return reply?.status === 404 ? 'gone' : 'lost';
    this.adopt([...polled.assigned, ...polled.draining]);
    this.settle(commits, outcomes!);
    return polled.batches.filter((batch) => this.accept(batch));
  }

  /** Undefined: there was no response; gone: it is no longer a member. */
  async commit(): Promise<'done' | 'gone' | undefined> {
    const commits = this.uncommitted();
    if (commits.length === 0) return 'done';
    const sentMs = Date.now();
    const reply = await this.api.call('POST', `/v1/groups/${this.group}/commit`, this.random, {
      body: { member: this.id, offsets: commits },
      expected: [200, 404],
    });
    const done = reply?.status === 200 ? (reply.body as { offsets: Polled['committed'] }) : undefined;
    const outcomes = done?.offsets.map(({ outcome }) => outcome);
    this.record('commit', sentMs, reply, { commits, outcomes });
    if (outcomes) this.settle(commits, outcomes);
    return done ? 'done' : reply?.status === 404 ? 'gone' : undefined;
  }

  /** What it has in flight is handed out again. */
  async leave(): Promise<boolean> {
    const sentMs = Date.now();
    const path = `/v1/groups/${this.group}/members/${this.id}`;
    const reply = await this.api.call('DELETE', path, this.random, { expected: [204, 404] });
    this.record('leave', sentMs, reply);
    return reply !== undefined;
  }

  /** Everything up to `offset` was processed; some of it is rejected. */
  processed(batch: Place, offset: number, rejected: Position['rejected'] = []): void {
    const position = this.positions.get(placeName(batch));
    // It may have started over since it got the batch: then it gets these messages again.
    if (!position || offset >= position.next) return;
    position.processed = Math.max(position.processed, offset);
    const known = new Set(position.rejected.map((one) => one.offset));
    position.rejected.push(...rejected.filter((one) => !known.has(one.offset)));
  }

  private uncommitted() {
    return [...this.positions.values()]
      .filter(({ processed, committed }) => processed > committed)
      .map(({ topic, partition, fence, processed: offset, rejected }) => {
        const due = rejected.filter((one) => one.offset <= offset);
        return { topic, partition, fence, offset, ...(due.length > 0 ? { rejected: due } : {}) };
      });
  }

  /** A partition that it does not know yet starts behind the committed offset: an earlier response may be lost. */
  private adopt(places: readonly Assigned[]): void {
    const known = new Map(this.positions);
    this.positions.clear();
    for (const { topic, partition, fence, committed } of places) {
      const name = placeName({ topic, partition, fence });
      const fresh: Position = {
        topic,
        partition,
        fence,
        next: committed + 1,
        processed: committed,
        committed,
        rejected: [],
      };
      const position = known.get(name) ?? fresh;
      // The response to a commit may be lost.
      position.committed = Math.max(position.committed, committed);
      position.processed = Math.max(position.processed, position.committed);
      position.next = Math.max(position.next, position.committed + 1);
      this.positions.set(name, position);
    }
  }

  /** A batch behind a gap is not processed: what is missing is asked for with the next poll. */
  private accept(batch: ReceivedBatch): boolean {
    const position = this.positions.get(placeName(batch));
    if (!position || batch.from > position.next) return false;
    position.next = batch.to + 1;
    return true;
  }

  private settle(
    commits: ReturnType<Member['uncommitted']>,
    outcomes: readonly NonNullable<SentCommit['outcome']>[],
  ): void {
    commits.forEach((item, index) => {
      const name = placeName(item);
      const position = this.positions.get(name);
      if (!position) return;
      if (outcomes[index] === 'fenced') this.positions.delete(name);
      else if (outcomes[index] === 'ahead') startOver(position);
      else {
        position.committed = Math.max(position.committed, item.offset);
        const rest = position.rejected.filter(({ offset }) => offset > item.offset);
        position.rejected.splice(0, position.rejected.length, ...rest);
      }
    });
  }

  private record(
    what: ConsumerCall['what'],
    sentMs: number,
    reply: Reply | undefined,
    more: {
      readonly commits?: ReturnType<Member['uncommitted']>;
      readonly outcomes?: readonly NonNullable<SentCommit['outcome']>[] | undefined;
      readonly next?: ConsumerCall['next'];
      readonly batches?: readonly ReceivedBatch[];
    } = {},
  ): void {
    const { commits = [], outcomes, next = [], batches = [] } = more;
    this.calls.push({
      group: this.group,
      member: this.id,
      what,
      sentMs,
      doneMs: Date.now(),
      status: reply?.status,
      commits: commits.map(({ rejected = [], ...item }, index) => ({
        ...item,
        rejected: rejected.map(({ offset }) => offset),
        outcome: outcomes?.[index],
      })),
      next,
      batches,
    });
  }
}

/** A poll that was given up took back what it had: it comes again. */
function startOver(position: Position): void {
  position.next = position.committed + 1;
  position.processed = position.committed;
  position.rejected.length = 0;
}

/** Without payloads. */
function kept({ topic, partition, fence, from, to, messages }: ReceivedBatch): ReceivedBatch {
  return {
    topic,
    partition,
    fence,
    from,
    to,
    messages: messages.map(({ offset, id, attempt }) => ({ offset, id, attempt })),
  };
}
