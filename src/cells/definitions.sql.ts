/** What is copied of a group; `generation` and `balanced` are of the members in each cell. */
const GROUP_COLUMNS = [
  ...['definition', 'topics', 'session_ms', 'max_in_flight', 'attempts', 'takeover', 'on_expired', 'origin'],
  ...['created_at', 'created_by', 'updated_at', 'updated_by'],
];
const groupOf = (table: string) => `(${GROUP_COLUMNS.map((column) => `${table}.${column}`).join(', ')})`;

/**
 * cells.definitions — what is defined in the home cell, and a mark that changes with it. The rows are null if the mark is
 * still the known one. Copied are whole rows: a cell that is one version behind ignores columns that it does not have.
 * Groups have no revision, and the time of a change is
 * that at which its transaction began, so their mark is their content. $1 known mark
 */
export const READ_DEFINITIONS = `
  WITH current AS (
    SELECT concat_ws('/',
      (SELECT COALESCE(max(revision), 0) FROM listener),
      (SELECT concat_ws(',', count(*), max(revision), extract(epoch FROM max(updated_at))) FROM topic),
      (SELECT md5(string_agg(concat_ws(',', number, origin, updated_by, definition), '' ORDER BY number)) FROM consumer_group)) AS mark
  )
  SELECT mark,
    CASE WHEN mark <> $1 THEN (SELECT COALESCE(json_agg(listener), '[]') FROM listener)::text END AS listeners,
    CASE WHEN mark <> $1 THEN (SELECT COALESCE(json_agg(topic), '[]') FROM topic)::text END AS topics,
    CASE WHEN mark <> $1 THEN (SELECT COALESCE(json_agg(consumer_group), '[]') FROM consumer_group)::text END AS groups
  FROM current`;

/** cells.copied — the mark of what was copied last; no row: it is not this cell. $1 catalogue, $2 number */
export const COPIED = 'SELECT definitions AS mark FROM cell_self WHERE catalogue = $1 AND number = $2';

/** cells.lockCopy — one copy at a time; it reads the home cell after it has the lock, so an older one never comes last. */
export const LOCK_COPY = `${COPIED} FOR UPDATE`;

/** cells.setCopied — $1 mark */
export const SET_COPIED = 'UPDATE cell_self SET definitions = $1';

/** cells.copyListeners — with their numbers, from which their lanes follow. $1 rows */
export const COPY_LISTENERS = `
  INSERT INTO listener AS known
  OVERRIDING SYSTEM VALUE SELECT * FROM json_populate_recordset(NULL::listener, $1::json)
  ON CONFLICT (name) DO UPDATE SET revision = EXCLUDED.revision, definition = EXCLUDED.definition, types = EXCLUDED.types,
    sealed = EXCLUDED.sealed, secret_from = EXCLUDED.secret_from, origin = EXCLUDED.origin, state = EXCLUDED.state,
    state_reason = EXCLUDED.state_reason, state_since = EXCLUDED.state_since, state_by = EXCLUDED.state_by,
    created_at = EXCLUDED.created_at, created_by = EXCLUDED.created_by, updated_at = EXCLUDED.updated_at,
    updated_by = EXCLUDED.updated_by, deleted_at = EXCLUDED.deleted_at
  WHERE known.revision < EXCLUDED.revision`;

/** cells.addLanes — of listeners that are new here; the lanes of one that is pulled are leased for ever. */
export const ADD_LANES = `
  INSERT INTO lane (queue, lane, leased_until)
  SELECT 'outbox', number * 256 + generate_series(0, lanes - 1),
         CASE WHEN definition->>'mode' = 'pull' THEN 'infinity' ELSE '-infinity' END::timestamptz
  FROM listener ON CONFLICT DO NOTHING`;

/**
 * cells.copyTopics — a deleted topic that was never here is left out; one that the home cell no longer has at all was
 * deleted while this cell was away. $1 rows
 */
export const COPY_TOPICS = `
  WITH given AS MATERIALIZED (SELECT * FROM json_populate_recordset(NULL::topic, $1::json)),
  gone AS (
    UPDATE topic SET deleted_at = now(), revision = (SELECT COALESCE(max(revision), 1) FROM given)
    WHERE deleted_at IS NULL AND number NOT IN (SELECT number FROM given)
  )
  INSERT INTO topic AS known OVERRIDING SYSTEM VALUE
  SELECT * FROM given WHERE deleted_at IS NULL OR number IN (SELECT number FROM topic)
  ON CONFLICT (number) DO UPDATE SET revision = EXCLUDED.revision, types = EXCLUDED.types,
    retention_ms = EXCLUDED.retention_ms, kind = EXCLUDED.kind, origin = EXCLUDED.origin, created_at = EXCLUDED.created_at,
    created_by = EXCLUDED.created_by, updated_at = EXCLUDED.updated_at, updated_by = EXCLUDED.updated_by,
    deleted_at = EXCLUDED.deleted_at`;

/** cells.addPartitions — of topics that are new here. */
export const ADD_PARTITIONS = `
  INSERT INTO topic_partition (topic, partition)
  SELECT number, generate_series(0, partitions - 1) FROM topic WHERE deleted_at IS NULL ON CONFLICT DO NOTHING`;

/** cells.deletedTopics — those whose partitions are still here. */
export const DELETED_TOPICS = `
  SELECT number, name FROM topic
  WHERE deleted_at IS NOT NULL AND EXISTS (SELECT FROM topic_partition WHERE topic_partition.topic = topic.number)`;

/** cells.groupsGone — those that the home cell no longer has. $1 rows */
export const GROUPS_GONE = `
  SELECT * FROM consumer_group
  WHERE number NOT IN (SELECT number FROM json_populate_recordset(NULL::consumer_group, $1::json)) FOR NO KEY UPDATE`;

/** cells.copyGroups — $1 rows */
export const COPY_GROUPS = `
  INSERT INTO consumer_group AS known (number, name, ${GROUP_COLUMNS.join(', ')})
  OVERRIDING SYSTEM VALUE
  SELECT number, name, ${GROUP_COLUMNS.join(', ')} FROM json_populate_recordset(NULL::consumer_group, $1::json)
  ON CONFLICT (number) DO UPDATE SET ${GROUP_COLUMNS.map((column) => `${column} = EXCLUDED.${column}`).join(', ')}
  WHERE ${groupOf('known')} IS DISTINCT FROM ${groupOf('EXCLUDED')}`;

/** cells.groups — they assign their partitions again. */
export const ALL_GROUPS = 'UPDATE consumer_group SET generation = generation + 1 RETURNING *';
