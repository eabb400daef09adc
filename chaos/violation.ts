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
