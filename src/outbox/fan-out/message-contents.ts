import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { splitByBytes } from '../../database/split-by-bytes.ts';
import type { ClaimedDelivery, MessageContent } from '../claim/outbox-queue.ts';
import { OutboxStore } from '../outbox-store.ts';

/** Max bytes a lane loads at a time, unless one payload alone is larger: a lane has one delivery in flight, the rest waits. */
const LANE_BYTES = 64 * 1024;
/** Max bytes of one query. */
const QUERY_BYTES = 8 * 1024 * 1024;
/** Max bytes kept of messages that were just fanned out, and of one of them. */
const RECENT_BYTES = 16 * 1024 * 1024;
const MAX_RECENT_MESSAGE_BYTES = 64 * 1024;
/** About what a row takes besides its payload: without it, millions of tiny messages would count as nothing. */
const ROW_BYTES = 1024;

interface LoadRequest {
  readonly deliveries: readonly ClaimedDelivery[];
  resolve(contents: ReadonlyMap<number, MessageContent>): void;
  reject(error: unknown): void;
}

/**
 * The messages to send, loaded as late and as little as possible: a run of 32 deliveries of 1 MiB each, in every lane of
 * every listener, would fill any memory. Lanes that ask in the same turn of the event loop share a query, and listeners
 * share a payload. Messages that this replica has just fanned out need no query: they are still in memory.
 */
@Injectable()
export class MessageContents {
  private recent = new Map<number, MessageContent>();
  private recentBytes = 0;
  /** The generation before `recent`, dropped as a whole: a Map whose first entries are deleted one by one has to skip all of them. */
  private older: ReadonlyMap<number, MessageContent> = new Map();
  private requests: LoadRequest[] = [];
  private readonly sends: boolean;

  constructor(
    @Inject(SETTINGS_TOKEN) { roles }: Pick<Settings, 'roles'>,
    private readonly store: OutboxStore,
  ) {
    this.sends = roles.includes('outbox');
  }

  /** After the fan-out: its deliveries are sent at once, most likely by this replica. */
  remember(content: MessageContent): void {
    const bytes = sizeOf(content);
    if (!this.sends || bytes > MAX_RECENT_MESSAGE_BYTES || this.recent.has(content.position)) return;
    if (this.recentBytes + bytes > RECENT_BYTES / 2) {
      this.older = this.recent;
      this.recent = new Map();
      this.recentBytes = 0;
    }
    this.recent.set(content.position, content);
    this.recentBytes += bytes;
  }

  /** By position in the inbox; messages that were removed are missing. */
  of(deliveries: readonly ClaimedDelivery[]): Promise<ReadonlyMap<number, MessageContent>> {
    const known = pick(deliveries, (position) => this.recent.get(position) ?? this.older.get(position));
    if (deliveries.every(({ message }) => known.has(message))) return Promise.resolve(known);
    return new Promise((resolve, reject) => {
      if (this.requests.length === 0) setImmediate(() => void this.load());
      this.requests.push({ deliveries, resolve, reject });
    });
  }

  private async load(): Promise<void> {
    const requests = this.requests;
    this.requests = [];
    const parts = splitByBytes(requests, QUERY_BYTES, ({ deliveries }) =>
      deliveries.reduce((sum, { bytes }) => sum + bytes, 0),
    );
    await Promise.all(parts.map((part) => this.query(part)));
  }

  private async query(requests: readonly LoadRequest[]): Promise<void> {
    try {
      const contents = await this.store.contentOf(requests.flatMap(({ deliveries }) => deliveries));
      // Each lane gets its own map: one that hangs must not keep messages in memory that others have sent long ago.
      const loaded = (position: number) => contents.get(position);
      for (const { deliveries, resolve } of requests) resolve(pick(deliveries, loaded));
    } catch (error) {
      for (const { reject } of requests) reject(error);
    }
  }
}

function pick(
  deliveries: readonly ClaimedDelivery[],
  contentAt: (position: number) => MessageContent | undefined,
): Map<number, MessageContent> {
  const found = new Map<number, MessageContent>();
  for (const { message } of deliveries) {
    const content = contentAt(message);
    if (content) found.set(message, content);
  }
  return found;
}

function sizeOf({ payload }: MessageContent): number {
  return payload.length + ROW_BYTES;
}

/** The parts that a lane loads one after the other. */
export function inParts(deliveries: readonly ClaimedDelivery[]): ClaimedDelivery[][] {
  return splitByBytes(deliveries, LANE_BYTES, ({ bytes }) => bytes);
}
