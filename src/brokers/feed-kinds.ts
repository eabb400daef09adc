import type { FeedKind, FeedMode } from './feed.ts';

/** Loaded when the first source of the kind is defined: most installations need none of the clients. */
const LOADERS: Readonly<Record<FeedMode, () => Promise<FeedKind>>> = {
  nats: async () => (await import('./nats/nats-feed.ts')).NATS_FEEDS as FeedKind,
  rabbitmq: async () => (await import('./rabbitmq/rabbit-feed.ts')).RABBIT_FEEDS as FeedKind,
};

export function feedKindOf(mode: FeedMode): Promise<FeedKind> {
  return LOADERS[mode]();
}
