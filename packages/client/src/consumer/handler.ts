import type { Partition } from './partition.ts';
import type { Message } from './wire.ts';

export interface HandlerContext {
  /** Aborts when the partition is lost, when the handler exceeds `handlerTimeout`, and when a stop does not wait any longer. */
  readonly signal: AbortSignal;
  /** Counts from 1: how often this consumer has started the handler for this message. */
  readonly tries: number;
  /** Grows with every hand-over of the partition: store it with your own writes to refuse those of a former owner. */
  readonly fence: number;
}

export type Handler<Payload = unknown> = (message: Message<Payload>, context: HandlerContext) => unknown;

/** A message on its way through the handler. */
export interface Item {
  readonly partition: Partition;
  readonly message: Message;
  readonly key: string;
  tries: number;
}
