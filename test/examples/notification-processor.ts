import { setTimeout as pause } from 'node:timers/promises';
import { NOTIFICATION } from './outage-notifications.ts';

/*
 * NotificationProcessor of the source document as a consumer: notification-queue is a listener with the mode `pull`. The bot
 * may send 30 messages a second, and one a second to a chat; so the process waits before it sends, and the queue hands out no
 * more than can be sent within a lease.
 */

/** notification-queue: visibility timeout 30 s, 3 receives, then a dead letter. */
export const QUEUE = {
  mode: 'pull',
  types: [NOTIFICATION],
  lease: '30s',
  attempts: 3,
  retrySchedule: ['1ms'],
  // 25 workers with 50 each would have 1,250: more than are sent in 30 s.
  maxInFlight: 750,
};

/** What the source document demands of the consumer (E4). */
const LIMITS = { workers: 25, batch: 50, perSecond: 30, chatEveryMs: 1_000 } as const;

interface Message {
  readonly lease: string;
  readonly key: string;
  readonly payload: unknown;
}

interface Verdicts {
  readonly acknowledge: string[];
  readonly retry: { lease: string; after?: string; reason: string }[];
  readonly reject: { lease: string; reason: string }[];
}

export interface Environment {
  /** Calls a route of the listener. */
  queue(route: 'pull' | 'acknowledge', body: unknown): Promise<{ messages: Message[] }>;
  /** Where the bot sends to. */
  readonly telegram: string;
}

/** When the next message may be sent: turns are handed out in order, to all workers of the process. */
class Pace {
  private nextMs = 0;
  private readonly chats = new Map<string, number>();

  async turn(chat: string): Promise<void> {
    const now = performance.now();
    const atMs = Math.max(now, this.nextMs, (this.chats.get(chat) ?? 0) + LIMITS.chatEveryMs);
    this.nextMs = Math.max(now, this.nextMs) + 1000 / LIMITS.perSecond;
    await pause(atMs - now);
  }

  /** The chat has it; messages of a chat are handed out one after the other. */
  sentTo(chat: string): void {
    this.chats.set(chat, performance.now());
  }
}

/** Runs until the signal is aborted; what is in flight then is settled. */
export async function processNotifications(environment: Environment, signal: AbortSignal): Promise<void> {
  const pace = new Pace();
  const workers = Array.from({ length: LIMITS.workers }, () => work(environment, pace, signal));
  await Promise.all(workers);
}

async function work({ queue, telegram }: Environment, pace: Pace, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const { messages } = await queue('pull', { max: LIMITS.batch, wait: '1s' });
    // Each by itself: a batch must not wait for its slowest.
    await Promise.all(
      messages.map(async (message) => queue('acknowledge', await send(message, telegram, pace))),
    );
  }
}

/** E5: what a response of Telegram means. */
async function send({ lease, key, payload }: Message, telegram: string, pace: Pace): Promise<Verdicts> {
  const verdicts: Verdicts = { acknowledge: [], retry: [], reject: [] };
  await pace.turn(key);
  const { status, headers } = await fetch(telegram, {
    method: 'POST',
    body: JSON.stringify({ key, data: payload }),
  });
  pace.sentTo(key);
  const reason = `responded ${status}`;
  if (status < 300) verdicts.acknowledge.push(lease);
  else if (status === 400 || status === 403) verdicts.reject.push({ lease, reason });
  else if (status === 429)
    verdicts.retry.push({ lease, after: `${headers.get('retry-after') ?? 1}s`, reason });
  else verdicts.retry.push({ lease, reason });
  return verdicts;
}
