import { type BeforeApplicationShutdown, Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { ResponsesInFlight } from '../../http/responses-in-flight.ts';
import { type Lanes, Wakeups } from '../../lanes/wakeups.ts';
import { type Listener, listenerOfLane } from '../../listeners/listener.ts';
import { Listeners } from '../../listeners/listeners.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { ExpiredLeases } from './expired-leases.ts';
import { type DeliveryPlace, HandOutStore } from './hand-out-store.ts';
import { Leases, SETTLED } from './leases.ts';
import { PullMetrics } from './pull-metrics.ts';
import { PullQueue } from './pull-queue.ts';
import type { PullLimits, PullResult } from './pull-request.ts';

/** The queue of each listener that is pulled on this replica. */
@Injectable()
export class PullQueues implements BeforeApplicationShutdown {
  private readonly queues = new Map<number, PullQueue>();
  private readonly pollMs: number;
  private readonly returning = new Set<Promise<void>>();
  private stopping = false;

  constructor(
    @Inject(SETTINGS_TOKEN) { outboxPoll }: Pick<Settings, 'outboxPoll'>,
    @Inject(LOG) private readonly log: Log,
    private readonly listeners: Listeners,
    private readonly store: HandOutStore,
    private readonly leases: Leases,
    private readonly expired: ExpiredLeases,
    private readonly metrics: PullMetrics,
    private readonly responses: ResponsesInFlight,
    wakeups: Wakeups,
  ) {
    this.pollMs = outboxPoll;
    wakeups.on('outbox', (lanes) => this.forEach(lanes, (queue) => queue.wake()));
    wakeups.on(SETTLED, (lanes) => this.forEach(lanes, (queue) => queue.wakeIfBlocked()));
    listeners.onChange(() => this.forEach(new Set(), (queue) => queue.wake()));
    metrics.countWaiting(() => [...this.queues.values()].reduce((sum, queue) => sum + queue.size, 0));
  }

  /** Requests that wait get their response at once, and what reached no consumer is given back. */
  async beforeApplicationShutdown(): Promise<void> {
    this.stopping = true;
    await Promise.all([...this.queues.values()].map((queue) => queue.stop()));
    await Promise.all(this.returning);
  }

  pull(listener: Listener, limits: PullLimits, signal: AbortSignal): Promise<PullResult> {
    return this.queueOf(listener).pull(limits, signal);
  }

  /** Nobody got these: they are handed out again at once, and no attempt is counted. If that fails, their leases expire. */
  giveBack(listener: Listener, token: string, rows: readonly DeliveryPlace[]): void {
    const returned = rows.map(
      ({ lane, position, attempt }) => [{ lane, position, attempt, token }, { kind: 'returned' }] as const,
    );
    const done = this.leases
      .settle(listener, returned)
      .then(() => undefined)
      .catch((error) => {
        this.log.warn(
          { event: 'pull.not-returned', listener: listener.name, messages: rows.length, error },
          'messages that reached no consumer could not be given back; their leases expire',
        );
      })
      .finally(() => this.returning.delete(done));
    this.returning.add(done);
  }

  private queueOf(listener: Listener): PullQueue {
    const { number } = listener;
    const known = this.queues.get(number);
    if (known) return known;
    const queue = new PullQueue({
      store: this.store,
      responses: this.responses,
      pollMs: this.pollMs,
      current: () => this.listeners.byNumber(number),
      giveBack: (one, token, rows) => this.giveBack(one, token, rows),
      uncertain: (one, token) => this.expired.addUncertain(one, token),
      handedOut: ({ name }, rows) => this.metrics.handedOut(name, rows),
    });
    if (this.stopping) void queue.stop();
    this.queues.set(number, queue);
    return queue;
  }

  private forEach(lanes: Lanes, wake: (queue: PullQueue) => void): void {
    if (this.queues.size === 0) return;
    const numbers = lanes.size === 0 ? this.queues.keys() : new Set([...lanes].map(listenerOfLane));
    for (const number of numbers) {
      const queue = this.queues.get(number);
      if (queue && queue.size > 0) wake(queue);
    }
  }
}
