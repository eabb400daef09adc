export const LEASE_MS = 2_000;
const RETRIES = ['50ms', '100ms', '100ms', '200ms', '200ms'];
export const DELIVERY_RETRIES = ['200ms', '200ms', '500ms', '500ms', '1s', '1s', '2s', '2s'];
/** What listeners, topics and queues have. */
export const TYPES = ['plain', 'edit', 'slow', 'sent'];
/** Only the read model has it, so that retention can move such a message to history soon after it is finished. */
export const QUIET = 'quiet';

export const SETTINGS = {
  HOST: '127.0.0.1',
  LOG_LEVEL: 'warn',
  LOG_FORMAT: 'json',
  EGRESS_ALLOW: '127.0.0.0/8',
  SECRETS_KEYS: `k1=${'A'.repeat(43)}=`,
  INBOX_LEASE: `${LEASE_MS}ms`,
  INBOX_SLICE: '100ms',
  INBOX_POLL: '100ms',
  INBOX_BATCH_LANES: '8',
  INBOX_BATCH_MESSAGES: '64',
  INBOX_RETRY_SCHEDULE: RETRIES.join(','),
  INBOX_PREPARE_TIMEOUT: '2s',
  OUTBOX_LEASE: '4s',
  OUTBOX_POLL: '200ms',
  OUTBOX_SLICE: '300ms',
  DATABASE_POOL_SIZE: '10',
  DATABASE_STATEMENT_TIMEOUT: '5s',
  DATABASE_CONNECT_TIMEOUT: '4s',
  DRAIN_TIMEOUT: '15s',
  HISTORY: '*=forever',
  RETENTION_TYPES: `${QUIET}=1s`,
};

/** Each listener has another combination of order, format and failure policy. */
export const LISTENERS = [
  { name: 'steady', ordered: true, format: 'standard', onDead: 'skip' },
  { name: 'flaky', ordered: true, format: 'standard', onDead: 'skip', retrySchedule: DELIVERY_RETRIES },
  { name: 'unordered', ordered: false, format: 'cloudevents', onDead: 'skip' },
  { name: 'strict', ordered: true, format: 'standard', terminalStatuses: [400], onDead: 'hold' },
] as const;
