import { bytes, choice, duration, durations, integer } from '../setting.ts';

/** Accepting and processing messages. */
export const INBOX_SETTINGS = {
  INGEST_FLUSH_MESSAGES: integer({
    min: 1,
    max: 5_000,
    default: 500,
    about: 'Max single messages stored in one commit.',
  }),
  INGEST_FLUSH_BYTES: bytes({
    min: '1KiB',
    max: '256MiB',
    default: '8MiB',
    about: 'Max payload bytes of single messages stored in one commit.',
  }),
  INGEST_WAITING_MESSAGES: integer({
    min: 1,
    max: 1_000_000,
    default: 10_000,
    about: 'Max messages that wait in memory for their commit; beyond it, posts are refused with 503.',
  }),
  INGEST_WAITING_BYTES: bytes({
    min: '1MiB',
    max: '4GiB',
    default: '128MiB',
    about: 'Max payload bytes that wait in memory for their commit; beyond it, posts are refused with 503.',
  }),
  INGEST_WAIT: duration({
    min: '100ms',
    max: '2m',
    default: '10s',
    about: 'A post that waits longer than this to be stored is refused with 503 and not stored.',
  }),
  API_KEY_RATE_LIMIT: integer({
    min: 0,
    max: 1_000_000,
    default: 0,
    about: 'Messages per second that one API key may post to one replica; also the burst size. 0: no limit.',
  }),
  INBOX_WORKERS: integer({
    min: 1,
    max: 64,
    default: 2,
    about: 'Number of batches of messages that this replica processes in parallel.',
  }),
  INBOX_BATCH_MESSAGES: integer({
    min: 1,
    max: 2_000,
    default: 512,
    about: 'Max messages applied in one transaction.',
  }),
  INBOX_BATCH_LANES: integer({
    min: 1,
    max: 256,
    default: 64,
    about: 'Max lanes (of 256) that one worker leases at a time.',
  }),
  INBOX_LEASE: duration({
    min: '2s',
    max: '10m',
    default: '30s',
    about:
      'How long after a crash of a replica others take over its messages. A working replica renews its leases.',
  }),
  INBOX_SLICE: duration({
    min: '1ms',
    max: '1m',
    default: '250ms',
    about: 'How long a worker keeps its lanes while messages of other lanes wait.',
  }),
  INBOX_POLL: duration({
    min: '10ms',
    max: '1m',
    default: '500ms',
    about: 'How often a worker polls for messages; normally a notification wakes it earlier.',
  }),
  INBOX_RETRY_SCHEDULE: durations({
    default: '1s,5s,30s,2m,10m',
    max: 50,
    about: 'The wait before each retry (+0–20 %). When the last retry fails, the message is a dead letter.',
  }),
  INBOX_ON_DEAD: choice({
    of: ['hold', 'skip'],
    default: 'hold',
    about:
      '`hold`: later messages of the key wait behind its dead letter. `skip`: they are processed without it.',
  }),
  INBOX_UNHANDLED: choice({
    of: ['finish', 'dead'],
    default: 'finish',
    about:
      'A message whose type no denormalizer handles is finished (and fanned out), or becomes a dead letter.',
  }),
  INBOX_APPLY_TIMEOUT: duration({
    min: '1s',
    max: '2m',
    default: '20s',
    about:
      'A transaction whose denormalizers take longer is rolled back, and its messages are retried one by one; a message that takes longer alone is a failed attempt. The same holds for a transaction that sends no statement for 5s.',
  }),
  INBOX_PREPARE_CONCURRENCY: integer({
    min: 1,
    max: 1_000,
    default: 64,
    about: 'Max concurrent calls of `prepare` on this replica.',
  }),
  INBOX_PREPARE_TIMEOUT: duration({
    min: '1s',
    max: '1h',
    default: '1m',
    about: 'A `prepare` that takes longer is a failed attempt.',
  }),
} as const;
