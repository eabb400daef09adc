/** groups.revivedTopic — no row: there is no such group; null: it has no such topic yet. $1 group */
export const REVIVED_TOPIC = `
  SELECT consumer_group.name, topic.number AS topic FROM consumer_group
  LEFT JOIN topic ON topic.name = consumer_group.name || '.revived' AND topic.deleted_at IS NULL
  WHERE consumer_group.number = $1`;
