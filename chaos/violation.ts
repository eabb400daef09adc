/** What must hold, in the order of the promises; each is the name of a check. */
export const CHECKS = [
  'nothing accepted is lost',
  'nothing refused is applied',
  'the effect is there once',
  'the read model is the fold',
  'order as posted',
  'dead letters: only the guilty, nothing passes them',
  'superseded by a later one of its slot',
  'sent with the effect',
  'a retry waits its time',
  'inbox attempts within the maximum',
  'every listener got everything, or it is a dead letter',
  'told only what took effect',
  'order per key at the receiver',
  'signatures',
  'bytes as posted',
  'every repeat has a reason',
  'delivery attempts within the maximum',
  'no lease left',
  'nothing stuck',
  'never held without a hold',
  'never marked in a free lane for long',
  'replicas drain, none ends by itself',
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
