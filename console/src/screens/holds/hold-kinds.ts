/** Why a key is held, in words. */
export const HOLD_KINDS: Readonly<Record<string, string>> = {
  operator: 'set by an operator',
  retry: 'a message of it failed and is retried',
  deferred: 'a denormalizer deferred it',
  rate: 'over its rate',
  'dead-letter': 'waits behind a dead letter',
};
