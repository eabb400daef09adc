import { EGRESS_ALLOW_FORM, parseEgressAllow } from '../egress-allow-variable.ts';
import { parseSecretsKeys, SECRETS_KEYS_FORM } from '../secrets-keys-variable.ts';
import { duration, integer, parsed, text } from '../setting.ts';

/** Deliveries and listeners. */
export const OUTBOX_SETTINGS = {
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
      'Max deliveries of one lane claimed at a time; until its receiver has proved to be fast, a sixteenth of that.',
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
      'Non-public addresses that listeners may use, such as receivers and brokers in the same cluster. All others are refused.',
  }),
  LISTENERS_FILE: text({
    allowed: 'path of a YAML file',
    about:
      'Listeners, topics and consumer groups (`listeners:`, `topics:`, `groups:`) that are created and changed to match this file when a replica starts. Listeners that it no longer has are removed; topics and groups stay, because they hold data. What was created by the API is not affected.',
  }),
  SECRETS_KEYS: parsed({
    allowed: SECRETS_KEYS_FORM,
    absent: [],
    secret: true,
    parse: parseSecretsKeys,
    about:
      "Keys that encrypt listeners' secrets, credentials, headers and URLs in the database, the same on all replicas: the first one encrypts, all decrypt. To rotate: add a new key at the end everywhere, then move it to the front, then remove the old one. Default: a key is generated and kept in `DATA_DIRECTORY/secrets.key` (its content is a valid value), which is enough for one machine. Sessions of the console are signed with a key derived from it; until there is any key, with one that only this process has.",
  }),
} as const;
