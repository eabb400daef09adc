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
 * Every variable the service reads, in the order of `docs/settings.md`.
 * A loop, a limit or a time that someone may want to change stands here and nowhere else.
 */
export const SETTINGS = {
  HOST: text({
    about:
      'Address to listen on. Default: `127.0.0.1` without api keys, else `0.0.0.0`. `localhost` is `127.0.0.1`.',
  }),
  PORT: integer({ min: 0, max: 65_535, default: 3000, about: 'Port to listen on; 0 picks a free one.' }),
  ROLES: subset({
    of: ['api', 'inbox', 'outbox', 'upkeep'],
    default: ['api', 'inbox', 'outbox', 'upkeep'],
    about:
      'What this replica does. Health, metrics and `/docs` are always served, the rest of HTTP by `api` alone.',
  }),
  LOG_LEVEL: choice({
    of: ['fatal', 'error', 'warn', 'info', 'debug', 'trace'],
    default: 'info',
    about: 'The least severe line that is written.',
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
    about: 'Keys that are valid from the start. More are managed at `/v1/api-keys`.',
  }),
  METRICS_ACCESS: choiceOrNone({
    of: ['open', 'keyed'],
    about:
      '`keyed`: `/metrics` needs a key with scope `read`; `open`: none. Default: `open` where HOST is loopback, else `keyed`.',
  }),
  METRICS_INTERVAL: duration({
    min: '100ms',
    max: '1m',
    default: '15s',
    about: 'How often a replica with the role `upkeep` looks at what waits in the database.',
  }),
  REQUEST_TIMEOUT: duration({
    min: '1s',
    max: '5m',
    default: '15s',
    about: 'A request that has not arrived whole by then is cut off.',
  }),
  WRITE_TIMEOUT: duration({
    min: '1s',
    max: '10m',
    default: '30s',
    about:
      'A connection whose caller reads nothing of its response for this long is closed. Requests that wait (`?wait=`) have no response yet and are not affected.',
  }),
  CONNECTIONS_LIMIT: integer({
    min: 10,
    max: 1_000_000,
    default: 2_000,
    about:
      'Open connections at a time; further ones are closed at once. Each takes a file descriptor and 18 KiB of memory, up to 100 KiB with requests pipelined on it.',
  }),
  BODY_LIMIT: bytes({
    min: '1KiB',
    max: '16MiB',
    default: '1MiB',
    about: 'Largest request body; more is a 413.',
  }),
  BATCH_BODY_LIMIT: bytes({
    min: '1KiB',
    max: '256MiB',
    default: '16MiB',
    about: 'Largest body of a batch of messages.',
  }),
  BODIES_LIMIT: bytes({
    min: '1MiB',
    max: '4GiB',
    default: '128MiB',
    about:
      'Most bytes of request bodies in memory at a time, over all requests that are not answered yet; beyond, requests are answered 503. One alone may be larger.',
  }),
  DRAIN_GRACE: duration({
    min: '0s',
    max: '5m',
    default: '0s',
    about:
      'When told to stop, `/readyz` answers 503 for this long before anything else ends: time for a load balancer to look away.',
  }),
  DRAIN_TIMEOUT: duration({
    min: '1s',
    max: '10m',
    default: '20s',
    about:
      'Longest wait for work in flight when stopping, after DRAIN_GRACE; keep both below the grace period of the orchestrator.',
  }),

  INGEST_FLUSH_MESSAGES: integer({
    min: 1,
    max: 5_000,
    default: 500,
    about: 'Most single messages stored with one commit.',
  }),
  INGEST_FLUSH_BYTES: bytes({
    min: '1KiB',
    max: '256MiB',
    default: '8MiB',
    about: 'Most payload stored with one commit of single messages.',
  }),
  INGEST_WAITING_MESSAGES: integer({
    min: 1,
    max: 1_000_000,
    default: 10_000,
    about: 'Most messages that wait in memory for their commit; beyond, posts are answered 503.',
  }),
  INGEST_WAITING_BYTES: bytes({
    min: '1MiB',
    max: '4GiB',
    default: '128MiB',
    about: 'Most payload that waits in memory for its commit.',
  }),
  INGEST_WAIT: duration({
    min: '100ms',
    max: '2m',
    default: '10s',
    about: 'A post that waits longer than this for its turn to be stored is answered 503, and not stored.',
  }),
  API_KEY_RATE_LIMIT: integer({
    min: 0,
    max: 1_000_000,
    default: 0,
    about: 'Messages per second one api key may post to one replica (bursts of as many); 0: no limit.',
  }),

  INBOX_WORKERS: integer({
    min: 1,
    max: 64,
    default: 2,
    about: 'How many batches of messages this replica processes side by side.',
  }),
  INBOX_BATCH_MESSAGES: integer({
    min: 1,
    max: 2_000,
    default: 512,
    about: 'Most messages applied in one transaction.',
  }),
  INBOX_BATCH_LANES: integer({
    min: 1,
    max: 256,
    default: 64,
    about: 'Most lanes (of 256) one worker leases at a time.',
  }),
  INBOX_LEASE: duration({
    min: '2s',
    max: '10m',
    default: '30s',
    about: "After a crash a replica's messages are taken over this late; renewed while it works.",
  }),
  INBOX_SLICE: duration({
    min: '1ms',
    max: '1m',
    default: '250ms',
    about: 'How long a worker keeps its lanes while others wait for their turn.',
  }),
  INBOX_POLL: duration({
    min: '10ms',
    max: '1m',
    default: '500ms',
    about: 'How often a worker looks for messages that nobody woke it for.',
  }),
  INBOX_RETRY_SCHEDULE: durations({
    default: '1s,5s,30s,2m,10m',
    most: 50,
    about: 'The wait before each further attempt (+0–20 %); after the last one a message is a dead letter.',
  }),
  INBOX_ON_DEAD: choice({
    of: ['hold', 'skip'],
    default: 'hold',
    about: '`hold`: messages of the key wait behind its dead letter. `skip`: they go on without it.',
  }),
  INBOX_UNHANDLED: choice({
    of: ['finish', 'dead'],
    default: 'finish',
    about: 'A message of a type that no denormalizer handles: finished (and fanned out), or a dead letter.',
  }),
  INBOX_APPLY_TIMEOUT: duration({
    min: '1s',
    max: '2m',
    default: '20s',
    about:
      'A transaction whose denormalizers take longer is given up, and its messages are tried one by one; one that takes longer alone is a failed attempt. So is one that asks nothing of the database for 5s.',
  }),
  INBOX_PREPARE_CONCURRENCY: integer({
    min: 1,
    max: 1_000,
    default: 64,
    about: 'How many calls outside (`prepare`) this replica makes at a time.',
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
    about: 'Most lanes, so most deliveries in flight, of this replica over all listeners.',
  }),
  OUTBOX_RUN: integer({
    min: 8,
    max: 1_000,
    default: 512,
    about:
      'Most deliveries claimed of one lane at a time; a sixteenth of it until its receiver turns out to be quick.',
  }),
  OUTBOX_LEASE: duration({
    min: '25s',
    max: '10m',
    default: '60s',
    about:
      "After a crash a replica's deliveries are taken over this late. At least 10s longer than the timeout of any listener: a longer timeout is refused, and so is a start with a lease that is too short for a listener there is.",
  }),
  OUTBOX_SLICE: duration({
    min: '1ms',
    max: '5m',
    default: '1s',
    about: 'How long a lane with more to send is kept before other replicas may take it.',
  }),
  OUTBOX_POLL: duration({
    min: '10ms',
    max: '1m',
    default: '500ms',
    about: 'How often a replica looks for deliveries that nobody woke it for.',
  }),
  EGRESS_ALLOW: parsed({
    allowed: EGRESS_ALLOW_FORM,
    absent: [],
    parse: parseEgressAllow,
    about:
      'Addresses that are not public and that listeners may be at nevertheless: receivers in the cluster.',
  }),
  LISTENERS_FILE: text({
    allowed: 'path of a YAML file',
    about:
      'Listeners that are created, replaced and removed as this file says when a replica starts; those made by API stay.',
  }),
  SECRETS_KEYS: parsed({
    allowed: SECRETS_KEYS_FORM,
    absent: [],
    secret: true,
    parse: parseSecretsKeys,
    about:
      "Keys that encrypt listeners' secrets, headers and URLs in the database, the same for all replicas: the first one encrypts, all decrypt. To rotate: add a new one at the end everywhere, then move it to the front, then take the old one out. Default: one is made and kept in `DATA_DIRECTORY/secrets.key` (its content is a valid value), which will do for one machine.",
  }),
  RETENTION_FINISHED: duration({
    min: '1m',
    max: '3650d',
    default: '7d',
    about: 'Finished messages and deliveries, and the memory of their ids, are kept this long.',
  }),
  RETENTION_DEAD: duration({
    min: '1m',
    max: '3650d',
    default: '30d',
    about:
      'Dead letters, and what was discarded, are kept this long; one that others wait behind until they do not.',
  }),
  RETENTION_DEAD_QUEUES: parsed({
    allowed: RETENTION_QUEUES_FORM,
    absent: [],
    parse: parseKeptFor,
    about: 'The same for the inbox or for single listeners.',
  }),
  RETENTION_TYPES: parsed({
    allowed: RETENTION_TYPES_FORM,
    absent: [],
    parse: parseKeptFor,
    about:
      'The first pattern that fits says how long finished messages of these types, their deliveries and the memory of their ids are kept, instead of `RETENTION_FINISHED`.',
  }),
  RETENTION_EXPIRED: duration({
    min: '1m',
    max: '3650d',
    default: '30d',
    about: 'Expired messages are kept this long.',
  }),
  RETENTION_SUPERSEDED: duration({
    min: '1m',
    max: '3650d',
    default: '7d',
    about: 'Superseded messages are kept this long.',
  }),
  RETENTION_WAITING: duration({
    min: '1m',
    max: '3650d',
    default: '90d',
    about:
      'What was never handled for this long is given up: messages end as `expired`, deliveries as dead letters. Not shorter than the retentions above.',
  }),
  RETENTION_PRODUCERS: duration({
    min: '1m',
    max: '3650d',
    default: '90d',
    about:
      'The numbers of a producer (`Producer-Id`) that sent nothing for this long are forgotten. Not shorter than `RETENTION_FINISHED` and `RETENTION_TYPES`.',
  }),
  RETENTION_AUDIT: duration({
    min: '1m',
    max: '3650d',
    default: '365d',
    about: 'What operators did is remembered this long.',
  }),
  DEAD_LETTER_ALERTS: parsed({
    allowed: DEAD_LETTER_ALERTS_FORM,
    absent: [{ queue: undefined, thresholds: [1, 5] }],
    parse: parseDeadLetterAlerts,
    about:
      'From how many dead letters of a queue (the inbox, a listener) on an alert `urn:sluice:alerts/dead-letters` is raised. Default: `1+5`.',
  }),
  WATCHDOG_TIMEOUT: duration({
    min: '1s',
    max: '10m',
    default: '20s',
    about: 'A replica whose event loop stands still for longer (an endless loop) is killed.',
  }),

  DATABASE_URL: parsed<string | undefined>({
    secret: true,
    allowed: DATABASE_URL_FORM,
    absent: undefined,
    parse: parseDatabaseUrl,
    about: 'PostgreSQL 14 or newer. Absent: an embedded PostgreSQL in `DATA_DIRECTORY`.',
  }),
  DATABASE_POOL_SIZE: integer({
    min: 4,
    max: 500,
    default: 10,
    about: "Connections of the engine's pool; the pool of the read API has as many again.",
  }),
  DATABASE_POOLER: choice({
    of: ['none', 'transaction'],
    default: 'none',
    about: '`transaction`: a pooler such as PgBouncer in transaction mode stands in between.',
  }),
  DATABASE_STATEMENT_TIMEOUT: duration({
    min: '1s',
    max: '2m',
    default: '30s',
    about: 'The server ends a statement that takes longer.',
  }),
  DATABASE_CONNECT_TIMEOUT: duration({
    min: '1s',
    max: '5m',
    default: '10s',
    about: 'Longest wait for a connection, from the server or from the pool.',
  }),
  DATA_DIRECTORY: textWithDefault({
    default: '.data',
    about: 'Where the embedded PostgreSQL keeps its data.',
  }),
  MIGRATIONS: choice({
    of: ['auto', 'off'],
    default: 'auto',
    about: '`auto`: migrate at start, one replica at a time. `off`: `npm run migrate` did it before.',
  }),
} as const;
