import { INBOX_LANES } from '../../inbox/new-message.ts';
import { laneOf } from '../../lanes/lane-of.ts';
import { likeOf } from '../../listeners/type-patterns.ts';
import { type DeadLetterFilter, STAGES, type Stage } from './dead-letter-filter.ts';

/** The tables of a stage's dead letters; in both, `inbox` is the message. */
const FROM = {
  inbox: 'FROM inbox',
  outbox: `FROM outbox JOIN inbox ON inbox.position = outbox.message JOIN listener ON listener.number = outbox.listener`,
} as const;

/** FROM and WHERE for the dead letters that match a filter; the filter's values are appended to `values`. */
export function deadLettersOf(stage: Stage, filter: DeadLetterFilter, values: unknown[]): string {
  const conditions = [`${stage}.fingerprint IS NOT NULL`];
  const add = (value: unknown, condition: (parameter: string) => string) => {
    if (value !== undefined) conditions.push(condition(`$${values.push(value)}`));
  };
  const { listener, type, key, error, since } = filter;
  add(listener, (name) => `outbox.listener = (SELECT number FROM listener WHERE name = ${name})`);
  add(type && likeOf(type), (pattern) => `inbox.type LIKE ${pattern}`);
  add(key, (text) => `inbox.key = ${text}`);
  // The index of the dead letters of a key starts with the lane; the one of all messages of the key can be long.
  if (stage === 'inbox' && key !== undefined) conditions.push(`inbox.lane = ${laneOf(key, INBOX_LANES)}`);
  add(
    error,
    (text) =>
      `(strpos(lower(${stage}.error), lower(${text}::text)) > 0 OR ${stage}.fingerprint = ${text}::text)`,
  );
  add(since, (time) => `${stage}.lapsed_at >= ${time}::timestamptz`);
  return `${FROM[stage]} WHERE ${conditions.join(' AND ')}`;
}

/** The stages that a filter can match. */
export function stagesOf({ stage, listener }: DeadLetterFilter): readonly Stage[] {
  if (listener !== undefined) return ['outbox'];
  return stage ? [stage] : STAGES;
}
