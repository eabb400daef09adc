import { API_KEYS_FORM, parseApiKeys } from '../api-keys-variable.ts';
import { bytes, choice, choiceOrNone, duration, integer, parsed, subset, text } from '../setting.ts';

/** The process, HTTP and access to it. */
export const REPLICA_SETTINGS = {
  HOST: text({
    about:
      'Address to listen on. Default: `127.0.0.1` without API keys, otherwise `0.0.0.0`. `localhost` means `127.0.0.1`.',
  }),
  PORT: integer({ min: 0, max: 65_535, default: 3000, about: 'Port to listen on; 0 picks a free one.' }),
  ROLES: subset({
    of: ['api', 'inbox', 'outbox', 'upkeep'],
    default: ['api', 'inbox', 'outbox', 'upkeep'],
    about:
      'The work this replica does. Every replica serves health checks, metrics and `/docs`; only `api` serves the rest of HTTP, the console included.',
  }),
  ENVIRONMENT: text({
    allowed: 'text, up to 40 characters',
    pattern: /^(?=.*\S).{1,40}$/,
    about: 'The name of this environment, such as `production`; the console shows it.',
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
      'Max open connections; further ones are closed at once. Each takes a file descriptor and 18 KiB of memory, up to 80 KiB while a request with 16 KiB of headers is in progress; requests pipelined behind it take up to 64 MiB on all connections together.',
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
  RESPONSES_LIMIT: bytes({
    min: '1MiB',
    max: '4GiB',
    default: '128MiB',
    about:
      'Max bytes of responses in memory that their clients have not read yet. Close to it, polls and pulls return fewer messages; beyond it, they and pages are refused with 503. A single response may be larger.',
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
} as const;
