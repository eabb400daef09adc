import { API_KEYS_FORM, parseApiKeys } from './api-keys-variable.ts';
import { DATABASE_URL_FORM, parseDatabaseUrl } from './database-url-variable.ts';
import { DEAD_LETTER_ALERTS_FORM, parseDeadLetterAlerts } from './dead-letter-alerts-variable.ts';
import { EGRESS_ALLOW_FORM, parseEgressAllow } from './egress-allow-variable.ts';
import { parseKeptFor, RETENTION_QUEUES_FORM, RETENTION_TYPES_FORM } from './retention-variables.ts';
import { parseSecretsKeys, SECRETS_KEYS_FORM } from './secrets-keys-variable.ts';
import {
  bytes,
  choice,
  choiceOrNone,
  duration,
  durations,
  integer,
  parsed,
  subset,
  text,
  textWithDefault,
} from './setting.ts';

/**
 * Every variable that the service reads, in the order of `docs/settings.md`. Every interval, limit or timeout
 * that an operator may want to change is defined here and nowhere else.
 */
export const SETTINGS = {
  HOST: text({
    about:
      'Address to listen on. Default: `127.0.0.1` without API keys, otherwise `0.0.0.0`. `localhost` means `127.0.0.1`.',
  }),
  PORT: integer({ min: 0, max: 65_535, default: 3000, about: 'Port to listen on; 0 picks a free one.' }),
  ROLES: subset({
    of: ['api', 'inbox', 'outbox', 'upkeep'],
    default: ['api', 'inbox', 'outbox', 'upkeep'],
    about:
      'The work this replica does. Every replica serves health checks, metrics and `/docs`; only `api` serves the rest of HTTP.',
  }),
  LOG_LEVEL: choice({
    of: ['fatal', 'error', 'warn', 'info', 'debug', 'trace'],
    default: 'info',
    about: 'The least severe level that is logged.',
  }),
  LOG_FORMAT: choice({
    of: ['auto', 'json', 'pretty'],
    default: 'auto',
    about: '`auto`: pretty on a terminal, one JSON object per line elsewhere.',
  }),

  API_KEYS: parsed({
    allowed: API_KEYS_FORM,
    absent: [],
    secret: true,
    parse: parseApiKeys,
    about: 'API keys that are valid from the start. Further keys are managed at `/v1/api-keys`.',
  }),
  METRICS_ACCESS: choiceOrNone({
    of: ['open', 'keyed'],
    about:
      '`keyed`: `/metrics` needs an API key with scope `read`. `open`: it needs none. Default: `open` if HOST is loopback, otherwise `keyed`.',
  }),
  METRICS_INTERVAL: duration({
    min: '100ms',
    max: '1m',
    default: '15s',
    about: 'How often a replica with the role `upkeep` measures the queues in the database.',
  }),
  REQUEST_TIMEOUT: duration({
    min: '1s',
    max: '5m',
    default: '15s',
    about: 'A request that has not arrived completely within this time is aborted.',
  }),
  WRITE_TIMEOUT: duration({
    min: '1s',
    max: '10m',
    default: '30s',
    about:
      'A connection whose client reads nothing of its response for this long is closed. Requests that wait (`?wait=`) have no response yet and are not affected.',
  }),
  CONNECTIONS_LIMIT: integer({
    min: 10,
    max: 1_000_000,
    default: 2_000,
    about:
      'Max open connections; further ones are closed at once. Each takes a file descriptor and 18 KiB of memory, up to 100 KiB with pipelined requests.',
  }),
  BODY_LIMIT: bytes({
    min: '1KiB',
    max: '16MiB',
    default: '1MiB',
    about: 'Max size of a request body; a larger one is refused with 413.',
  }),
  BATCH_BODY_LIMIT: bytes({
    min: '1KiB',
    max: '256MiB',
    default: '16MiB',
    about: 'Max size of the body of a batch of messages.',
  }),
  BODIES_LIMIT: bytes({
    min: '1MiB',
    max: '4GiB',
    default: '128MiB',
    about:
      'Max bytes of request bodies in memory, over all requests in progress; beyond it, requests are refused with 503. A single request may be larger.',
  }),
  DRAIN_GRACE: duration({
    min: '0s',
    max: '5m',
    default: '0s',
    about:
      'On a stop signal `/readyz` returns 503 for this long before anything else stops, so that load balancers take the replica out.',
  }),
  DRAIN_TIMEOUT: duration({
    min: '1s',
    max: '10m',
    default: '20s',
    about:
      'Max wait for work in flight when stopping, after DRAIN_GRACE. Keep the sum of both below the grace period of the orchestrator.',
  }),

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
    about: 'A message whose type no denormalizer handles is finished (and fanned out), or a dead letter.',
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
  OUTBOX_LANES: integer({
    min: 1,
    max: 10_000,
    default: 1_000,
    about: 'Max lanes this replica holds over all listeners, and so max deliveries in flight.',
  }),
  OUTBOX_RUN: integer({
    min: 8,
    max: 1_000,
    default: 512,
    about:
      'Max deliveries of one lane claimed at a time; a sixteenth of it until its receiver has proved to be fast.',
  }),
  OUTBOX_LEASE: duration({
    min: '25s',
    max: '10m',
    default: '60s',
    about:
      'How long after a crash of a replica others take over its deliveries. At least 10s longer than the timeout of every listener: a listener with a longer timeout is refused, and so is a start with a lease that is too short for an existing listener.',
  }),
  OUTBOX_SLICE: duration({
    min: '1ms',
    max: '5m',
    default: '1s',
    about: 'How long a replica keeps a lane with more to send before other replicas may lease it.',
  }),
  OUTBOX_POLL: duration({
    min: '10ms',
    max: '1m',
    default: '500ms',
    about: 'How often a replica polls for deliveries; normally a notification wakes it earlier.',
  }),
  EGRESS_ALLOW: parsed({
    allowed: EGRESS_ALLOW_FORM,
    absent: [],
    parse: parseEgressAllow,
    about:
      'Non-public addresses that listeners may use, such as receivers in the same cluster. All others are refused.',
  }),
  LISTENERS_FILE: text({
    allowed: 'path of a YAML file',
    about:
      'Listeners that are created, replaced and removed to match this file when a replica starts. Listeners created by the API are not affected.',
  }),
  SECRETS_KEYS: parsed({
    allowed: SECRETS_KEYS_FORM,
    absent: [],
    secret: true,
    parse: parseSecretsKeys,
    about:
      "Keys that encrypt listeners' secrets, headers and URLs in the database, the same on all replicas: the first one encrypts, all decrypt. To rotate: add a new key at the end everywhere, then move it to the front, then remove the old one. Default: a key is generated and kept in `DATA_DIRECTORY/secrets.key` (its content is a valid value), which is enough for one machine.",
  }),
  RETENTION_FINISHED: duration({
    min: '1m',
    max: '3650d',
    default: '7d',
    about: 'How long finished messages and deliveries are kept, and their ids for detecting duplicates.',
  }),
  RETENTION_DEAD: duration({
    min: '1m',
    max: '3650d',
    default: '30d',
    about:
      'How long dead letters and discarded messages are kept. A dead letter that others wait behind is kept until none does.',
  }),
  RETENTION_DEAD_QUEUES: parsed({
    allowed: RETENTION_QUEUES_FORM,
    absent: [],
    parse: parseKeptFor,
    about: 'Overrides `RETENTION_DEAD` for the inbox or for single listeners.',
  }),
  RETENTION_TYPES: parsed({
    allowed: RETENTION_TYPES_FORM,
    absent: [],
    parse: parseKeptFor,
    about:
      'Overrides `RETENTION_FINISHED` for finished messages of these types, their deliveries and their ids. The first matching pattern counts.',
  }),
  RETENTION_EXPIRED: duration({
    min: '1m',
    max: '3650d',
    default: '30d',
    about: 'How long expired messages are kept.',
  }),
  RETENTION_SUPERSEDED: duration({
    min: '1m',
    max: '3650d',
    default: '7d',
    about: 'How long superseded messages are kept.',
  }),
  RETENTION_WAITING: duration({
    min: '1m',
    max: '3650d',
    default: '90d',
    about:
      'How long messages and deliveries may wait without being processed: after that, messages end as `expired` and deliveries as dead letters. Not shorter than the retentions above.',
  }),
  RETENTION_PRODUCERS: duration({
    min: '1m',
    max: '3650d',
    default: '90d',
    about:
      'How long the sequence numbers of a producer (`Producer-Id`) are kept after its last message. Not shorter than `RETENTION_FINISHED` and `RETENTION_TYPES`.',
  }),
  RETENTION_AUDIT: duration({
    min: '1m',
    max: '3650d',
    default: '365d',
    about: 'How long entries of the audit log are kept.',
  }),
  DEAD_LETTER_ALERTS: parsed({
    allowed: DEAD_LETTER_ALERTS_FORM,
    absent: [{ queue: undefined, thresholds: [1, 5] }],
    parse: parseDeadLetterAlerts,
    about:
      'Numbers of dead letters of a queue (the inbox or a listener) at which an alert `urn:sluice:alerts/dead-letters` is raised. Default: `1+5`.',
  }),
  WATCHDOG_TIMEOUT: duration({
    min: '1s',
    max: '10m',
    default: '20s',
    about: 'A replica whose event loop is blocked for longer (an endless loop) is killed.',
  }),

  DATABASE_URL: parsed<string | undefined>({
    secret: true,
    allowed: DATABASE_URL_FORM,
    absent: undefined,
    parse: parseDatabaseUrl,
    about: 'PostgreSQL 14 or newer. Default: an embedded PostgreSQL in `DATA_DIRECTORY`.',
  }),
  DATABASE_POOL_SIZE: integer({
    min: 4,
    max: 500,
    default: 10,
    about: "Max connections of the engine's pool; the pool of the read API has the same number in addition.",
  }),
  DATABASE_POOLER: choice({
    of: ['none', 'transaction'],
    default: 'none',
    about: '`transaction`: connections go through a pooler such as PgBouncer in transaction mode.',
  }),
  DATABASE_STATEMENT_TIMEOUT: duration({
    min: '1s',
    max: '2m',
    default: '30s',
    about: 'The server cancels a statement that takes longer.',
  }),
  DATABASE_CONNECT_TIMEOUT: duration({
    min: '1s',
    max: '5m',
    default: '10s',
    about: 'Max wait for a connection, to the server or from the pool.',
  }),
  DATA_DIRECTORY: textWithDefault({
    default: '.data',
    about: 'Folder of the embedded PostgreSQL, and of a generated `secrets.key`.',
  }),
  MIGRATIONS: choice({
    of: ['auto', 'off'],
    default: 'auto',
    about:
      '`auto`: migrate at start, one replica at a time. `off`: refuse to start unless `npm run migrate` has done it.',
  }),
} as const;
