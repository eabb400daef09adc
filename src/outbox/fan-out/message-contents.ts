import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { splitByBytes } from '../../database/split-by-bytes.ts';
import type { ClaimedDelivery, MessageContent } from '../claim/claimed-delivery.ts';
import { OutboxStore } from '../outbox-store.ts';

/** What a lane loads at a time, unless one payload alone is larger: a lane is one delivery in flight, the rest waits. */
const LANE_BYTES = 64 * 1024;
/** What one query answers with. */
const QUERY_BYTES = 8 * 1024 * 1024;
/** What is kept of messages that were just fanned out, and the largest of them. */
const RECENT_BYTES = 16 * 1024 * 1024;
const RECENT_LARGEST_BYTES = 64 * 1024;
/** About what a row takes besides its payload: without it, millions of tiny ones would count as nothing. */
const ROW_BYTES = 1024;

interface Wanted {
  readonly deliveries: readonly ClaimedDelivery[];
  resolve(contents: ReadonlyMap<number, MessageContent>): void;
  reject(error: unknown): void;
}

/**
 * What is to be sent, loaded as late and as little as possible: a run of 32 deliveries of 1 MiB each, in every lane of
 * every listener, would fill any memory. Lanes that ask in the same turn share a query, and listeners a payload.
 * What this replica has just fanned out needs none: it is still here.
 */
@Injectable()
export class MessageContents {
  private recent = new Map<number, MessageContent>();
  private recentBytes = 0;
  /** What was recent before; forgotten as a whole, because a Map that loses its first entry steps over all that it lost. */
  private older: ReadonlyMap<number, MessageContent> = new Map();
  private wanted: Wanted[] = [];
  private readonly sends: boolean;

  constructor(
    @Inject(SETTINGS_TOKEN) { roles }: Pick<Settings, 'roles'>,
    private readonly store: OutboxStore,
  ) {
    this.sends = roles.includes('outbox');
  }

  /** Fanned out just now; its deliveries are sent at once, most likely by this replica. */
  remember(content: MessageContent): void {
    const bytes = sizeOf(content);
    if (!this.sends || bytes > RECENT_LARGEST_BYTES || this.recent.has(content.position)) return;
    if (this.recentBytes + bytes > RECENT_BYTES / 2) {
      this.older = this.recent;
      this.recent = new Map();
      this.recentBytes = 0;
    }
    this.recent.set(content.position, content);
    this.recentBytes += bytes;
  }

  /** Those of the given deliveries that are still there; a message may have been removed. */
  of(deliveries: readonly ClaimedDelivery[]): Promise<ReadonlyMap<number, MessageContent>> {
    const known = pick(deliveries, (position) => this.recent.get(position) ?? this.older.get(position));
    if (deliveries.every(({ message }) => known.has(message))) return Promise.resolve(known);
    return new Promise((resolve, reject) => {
      if (this.wanted.length === 0) setImmediate(() => void this.load());
      this.wanted.push({ deliveries, resolve, reject });
    });
  }

  private async load(): Promise<void> {
    const wanted = this.wanted;
    this.wanted = [];
    const parts = splitByBytes(wanted, QUERY_BYTES, ({ deliveries }) =>
      deliveries.reduce((sum, { bytes }) => sum + bytes, 0),
    );
    await Promise.all(parts.map((part) => this.query(part)));
  }

  private async query(wanted: readonly Wanted[]): Promise<void> {
    try {
      const contents = await this.store.contentOf(wanted.flatMap(({ deliveries }) => deliveries));
      // Each gets its own: a lane that hangs must not keep what the others have sent long ago.
      const loaded = (position: number) => contents.get(position);
      for (const { deliveries, resolve } of wanted) resolve(pick(deliveries, loaded));
    } catch (error) {
      for (const { reject } of wanted) reject(error);
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

/** Parts that are loaded one after the other. */
export function inParts(deliveries: readonly ClaimedDelivery[]): ClaimedDelivery[][] {
  return splitByBytes(deliveries, LANE_BYTES, ({ bytes }) => bytes);
}
