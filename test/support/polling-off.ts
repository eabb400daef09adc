/** Settings that effectively disable polling: without a wake-up, work waits for a minute. */
export const POLLING_OFF = {
  INBOX_POLL: '1m',
  OUTBOX_POLL: '1m',
  EGRESS_ALLOW: '127.0.0.0/8',
  SECRETS_KEYS: `test=${Buffer.alloc(32, 1).toString('base64')}`,
};
