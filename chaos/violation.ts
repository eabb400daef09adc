/** The names of the checks, in the order of the promises. */
export const CHECKS = [
  'nothing accepted is lost',
  'nothing refused is applied',
  'applied exactly once',
  'the read model is the fold of its messages',
  'order as posted',
  'only failing messages become dead letters, none is overtaken',
  'superseded only by a later message of its slot',
  'what a message sends commits with its effect',
  'no retry before its time',
  'inbox attempts within the maximum',
  'every listener got every delivery, or it is a dead letter',
  'only finished messages are delivered',
  'order per key at the receiver',
  'signatures',
  'bytes as posted',
  'every repeat has a recorded reason',
  'delivery attempts within the maximum',
  'every work queue hands out every message until it is settled',
  'one lease per message at a time',
  'no more in flight than a work queue allows',
  'a work queue hands out a key one message at a time, in order',
  'a valid lease settles a message, no other does',
  'a fenced lease changes nothing',
  'every repeat from a work queue has a reason',
  'a topic has every finished message of its types once, in key order',
  'offsets of a partition are dense',
  'every group gets every message, and commits or rejects it',
  'batches in offset order, without gaps',
  'nothing is skipped by a rebalance',
  'committed offsets never go back',
  'only the owner of a partition commits, with its fence',
  'a fenced commit changes nothing',
  'every repeat to a group has a reason',
  'each rejected message is once in the dead letters of its group',
  'a replayed delivery is sent again',
  'a dead letter starts over once for each revive',
  'a schedule posts every tick once',
  'a message is in the inbox or in history, never in both',
  'readers see the fold, and never less than before',
  'a rebuilt read model is the fold of its messages',
  'a rebuild goes on, and stops at no message',
  'no unexpected response',
  'no lease left over',
  'nothing stuck',
  'never held without a hold',
  'never processing in a free lane for long',
  'replicas drain, none exits on its own',
  'no error without an injected cause',
] as const;

export type Check = (typeof CHECKS)[number];

export interface Violation {
  readonly check: Check;
  readonly detail: string;
}

export function violation(check: Check, detail: string): Violation {
  return { check, detail };
}
