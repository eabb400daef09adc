import { INBOX_LANES } from '../../inbox/new-message.ts';
import { laneOf } from '../../lanes/lane-of.ts';
import { likeOf } from '../../listeners/type-patterns.ts';
import { type DeadLetterFilter, STAGES, type Stage } from './dead-letter-filter.ts';

/** What groups rejected, with the columns of the other stages. The lane of a group is its number. */
const REJECTED = `(
  SELECT rejection.position, rejection.id, rejection.group_number, rejection.group_number AS lane, rejection.status,
         rejection.attempts AS attempt, rejection.reason AS error, rejection.fingerprint, rejection.rejected_at AS lapsed_at,
         rejection.topic, rejection.partition, rejection."offset", entry.message
  FROM rejection
  JOIN topic_entry AS entry
    ON entry.topic = rejection.dead_topic AND entry.partition = 0 AND entry."offset" = rejection.dead_offset
) AS rejected`;

/** Where the dead letters of a stage are: `rows` has them, `inbox` is the message, and `key` is what keeps order. */
export const SOURCES = {
  inbox: { rows: 'inbox', key: 'inbox.key', from: 'FROM inbox' },
  outbox: {
    rows: 'outbox',
    key: 'outbox.key',
    from: 'FROM outbox JOIN inbox ON inbox.position = outbox.message JOIN listener ON listener.number = outbox.listener',
  },
  group: {
    rows: 'rejected',
    key: 'inbox.key',
    from: `FROM ${REJECTED} JOIN inbox ON inbox.position = rejected.message
           JOIN consumer_group ON consumer_group.number = rejected.group_number`,
  },
} as const satisfies Record<Stage, unknown>;

/** FROM and WHERE for the dead letters that match a filter; the filter's values are appended to `values`. */
export function deadLettersOf(stage: Stage, filter: DeadLetterFilter, values: unknown[]): string {
  const { rows, from } = SOURCES[stage];
  const conditions = [`${rows}.fingerprint IS NOT NULL`];
  const add = (value: unknown, condition: (parameter: string) => string) => {
    if (value !== undefined) conditions.push(condition(`$${values.push(value)}`));
  };
  const { listener, group, type, key, error, since } = filter;
  add(listener, (name) => `outbox.listener = (SELECT number FROM listener WHERE name = ${name})`);
  add(group, (name) => `rejected.group_number = (SELECT number FROM consumer_group WHERE name = ${name})`);
  add(type && likeOf(type), (pattern) => `inbox.type LIKE ${pattern}`);
  add(key, (text) => `inbox.key = ${text}`);
  // The index of the dead letters of a key starts with the lane; the one of all messages of the key can be long.
  if (stage === 'inbox' && key !== undefined) conditions.push(`inbox.lane = ${laneOf(key, INBOX_LANES)}`);
  add(
    error,
    (text) =>
      `(strpos(lower(${rows}.error), lower(${text}::text)) > 0 OR ${rows}.fingerprint = ${text}::text)`,
  );
  add(since, (time) => `${rows}.lapsed_at >= ${time}::timestamptz`);
  return `${from} WHERE ${conditions.join(' AND ')}`;
}

/** The stages that a filter can match. */
export function stagesOf({ stage, listener, group }: DeadLetterFilter): readonly Stage[] {
  if (listener !== undefined) return ['outbox'];
  if (group !== undefined) return ['group'];
  return stage ? [stage] : STAGES;
}
