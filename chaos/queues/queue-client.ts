import { itemTexts, memberText } from '../../src/cli/raw-json.ts';
import type { Api, Reply } from '../api.ts';
import type { Random } from '../random.ts';
import type { PulledMessage, SentVerdict, WorkerCall } from './queue-history.ts';
import { PULL_RETRY_MS } from './queue-terms.ts';

/** What a worker decided about a lease. */
export interface Verdict {
  readonly lease: string;
  readonly kind: SentVerdict['kind'];
  /** Of a retry: undefined is as the queue defines it. */
  readonly afterMs?: number | undefined;
}

export interface PullOptions {
  readonly max: number;
  readonly waitMs: number;
  readonly signal?: AbortSignal;
}

/** For the server to return an empty pull, and for a slow machine. */
const RESPONSE_MS = 2_500;

/** Pulls from a queue and acknowledges, and records every call. */
export class QueueClient {
  constructor(
    private readonly api: Api,
    private readonly random: Random,
    private readonly calls: WorkerCall[],
    readonly queue: string,
    private readonly worker: string,
  ) {}

  /** Undefined: there was no response. */
  async pull({ max, waitMs, signal }: PullOptions): Promise<readonly PulledMessage[] | undefined> {
    const sentMs = Date.now();
    const reply = await this.api.call('POST', `/v1/listeners/${this.queue}/pull`, this.random, {
      body: { max, wait: `${waitMs}ms` },
      expected: [200],
      timeoutMs: waitMs + RESPONSE_MS,
      ...(signal ? { signal } : {}),
    });
    const messages = reply?.status === 200 ? messagesIn(reply) : undefined;
    this.record(sentMs, reply, { messages: messages ?? [] });
    return messages;
  }

  /** Undefined: there was no response. */
  async settle(verdicts: readonly Verdict[]): Promise<readonly SentVerdict[] | undefined> {
    if (verdicts.length === 0) return [];
    const sentMs = Date.now();
    const reply = await this.api.call('POST', `/v1/listeners/${this.queue}/acknowledge`, this.random, {
      body: bodyOf(verdicts),
      expected: [200],
    });
    const outcomes = reply?.status === 200 ? outcomesIn(reply) : undefined;
    const sent = verdicts.map(({ lease, kind, afterMs }) => ({
      lease,
      kind,
      ...(kind === 'retry' ? { afterMs: afterMs ?? PULL_RETRY_MS } : {}),
      outcome: outcomes?.get(lease),
    }));
    this.record(sentMs, reply, { verdicts: sent });
    return outcomes ? sent : undefined;
  }

  private record(
    sentMs: number,
    reply: Reply | undefined,
    { messages = [], verdicts = [] }: Partial<Pick<WorkerCall, 'messages' | 'verdicts'>>,
  ): void {
    const { queue, worker } = this;
    const times = { sentMs, doneMs: Date.now(), status: reply?.status };
    this.calls.push({ queue, worker, ...times, messages, verdicts });
  }
}

function bodyOf(verdicts: readonly Verdict[]): object {
  const of = (kind: Verdict['kind']) => verdicts.filter((one) => one.kind === kind);
  return {
    acknowledge: of('acknowledge').map(({ lease }) => lease),
    retry: of('retry').map(({ lease, afterMs }) => ({
      lease,
      ...(afterMs === undefined ? {} : { after: `${afterMs}ms` }),
    })),
    reject: of('reject').map(({ lease }) => ({ lease, reason: 'rejected by its hash' })),
    extend: of('extend').map(({ lease }) => ({ lease })),
  };
}

function outcomesIn({ body }: Reply): Map<string, NonNullable<SentVerdict['outcome']>> {
  const { leases } = body as {
    leases: { lease: string; outcome: NonNullable<SentVerdict['outcome']> }[];
  };
  return new Map(leases.map(({ lease, outcome }) => [lease, outcome]));
}

/** With the payloads as they came: to parse them would change some. */
function messagesIn({ text }: Reply): PulledMessage[] {
  return itemTexts(memberText(text, 'messages')!).map((item) => {
    const { lease, id, type, key, sequence, attempt } = JSON.parse(item) as PulledMessage;
    return { lease, id, type, key, sequence, attempt, payload: memberText(item, 'payload')! };
  });
}
