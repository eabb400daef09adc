import type { ObserverDatabase } from '../observer-database.ts';
import { INSTALL_CURSOR_LOG } from './cursor-log.ts';
import { GROUPS, type GroupTerms, groupDefinitionOf, TOPICS } from './group-terms.ts';

/** Creates the topics and groups of a run before its first message, and the log of their cursors in the schema `chaos`. */
export async function prepareGroups(
  put: (path: string, definition: object) => Promise<void>,
  database: ObserverDatabase,
): Promise<GroupTerms> {
  await database.query(INSTALL_CURSOR_LOG);
  for (const { name, ...definition } of TOPICS) await put(`/v1/topics/${name}`, definition);
  for (const { name, ...terms } of GROUPS) await put(`/v1/groups/${name}`, groupDefinitionOf(terms));
  return { topics: TOPICS, groups: GROUPS };
}

/** Messages that some group has not committed. */
export const LAG = `
  SELECT COALESCE(sum(tail.next - 1 - cursor.committed), 0) FROM group_cursor AS cursor
  JOIN topic_partition AS tail ON tail.topic = cursor.topic AND tail.partition = cursor.partition`;
