import { DEAD_LETTER_ALERTS_FORM, parseDeadLetterAlerts } from '../dead-letter-alerts-variable.ts';
import { HISTORY_FORM, parseHistory } from '../history-variable.ts';
import { parseKeptFor, RETENTION_QUEUES_FORM, RETENTION_TYPES_FORM } from '../retention-variables.ts';
import { duration, integer, parsed } from '../setting.ts';

/** Retention, alerts and the watchdog. */
export const UPKEEP_SETTINGS = {
  RETENTION_FINISHED: duration({
    min: '1m',
    max: '3650d',
    default: '7d',
    about: 'How long finished messages and deliveries are kept, and their ids for detecting duplicates.',
  }),
  REBUILD_SHARE: integer({
    min: 1,
    max: 100,
    default: 15,
    about:
      'Percent of the time that a replica spends on the rebuild of a read model while more than 1,000 live messages wait. With fewer, a rebuild runs at full speed.',
  }),
  RETENTION_DEAD: duration({
    min: '1m',
    max: '3650d',
    default: '30d',
    about:
      'How long dead letters, also those of groups, and discarded messages are kept. A dead letter that others wait behind is kept until none does.',
  }),
  RETENTION_TOPICS: duration({
    min: '1m',
    max: '3650d',
    default: '7d',
    about: 'How long topics keep their messages, unless a topic has a retention of its own.',
  }),
  RETENTION_DEAD_QUEUES: parsed({
    allowed: RETENTION_QUEUES_FORM,
    absent: [],
    parse: parseKeptFor,
    about: 'Overrides `RETENTION_DEAD` for the inbox, for single listeners, or for single groups.',
  }),
  RETENTION_TYPES: parsed({
    allowed: RETENTION_TYPES_FORM,
    absent: [],
    parse: parseKeptFor,
    about:
      'Overrides `RETENTION_FINISHED` for finished messages of these types, their deliveries and their ids. The first matching pattern counts.',
  }),
  HISTORY: parsed({
    allowed: HISTORY_FORM,
    absent: [],
    parse: parseHistory,
    about:
      'Finished messages of these types are moved to history after their retention, and kept there for this long after they were received. The first matching pattern counts. Must be the same on all replicas.',
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
      'Numbers of dead letters of a queue (the inbox, a listener or a group) at which an alert `urn:sluice:alerts/dead-letters` is raised. Default: `1+5`.',
  }),
  WATCHDOG_TIMEOUT: duration({
    min: '1s',
    max: '10m',
    default: '20s',
    about: 'A replica whose event loop is blocked for longer (an endless loop) is killed.',
  }),
} as const;
