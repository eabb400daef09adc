import type { Settings } from '../config/settings.ts';
import type { TopicRow } from './topics-store.ts';

type RetentionSettings = Pick<Settings, 'retentionTopics' | 'retentionDead' | 'retentionDeadQueues'>;

/** How long a topic keeps its messages (ms). The topics of a group are kept as long as dead letters. */
export function keptForMs(
  { name, origin, retention_ms }: Pick<TopicRow, 'name' | 'origin' | 'retention_ms'>,
  { retentionTopics, retentionDead, retentionDeadQueues }: RetentionSettings,
): number {
  if (retention_ms !== null) return retention_ms;
  if (origin !== 'group') return retentionTopics;
  const queue = `group/${name.replace(/\.[^.]+$/, '')}`;
  return retentionDeadQueues.find((one) => one.name === queue)?.ms ?? retentionDead;
}
