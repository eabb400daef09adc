import type { Outcome } from './message-acceptor.ts';
import type { PostedMessages } from './read-request.ts';

/** Injection token of the MessageRouter; nothing is injected without CELLS. */
export const MESSAGE_ROUTER = Symbol('MessageRouter');

/** With CELLS: stores each message in the cell of its key, by the `Ingest` of that cell. `PostRouter` is the only one. */
export interface MessageRouter {
  post(posted: PostedMessages): Promise<readonly Outcome[]>;
}
