import { GroupsStore } from '../../src/groups/groups-store.ts';
import { PollStore } from '../../src/groups/poll-store.ts';
import { appendEntries } from '../../src/topics/entry-writer.ts';
import { replaceMethod, rewriteStatement, statementsOf } from '../change-code.ts';
import type { ObserverDatabase } from '../observer-database.ts';
import { TOPICS } from './group-terms.ts';

/** How long an offset that a sequence assigned may stay without a commit. */
const PAUSE_SECONDS = 0.15;

/** Planted bugs of topics and groups; see bugs.ts. */
export const GROUP_BUGS = {
  /** Offsets come from a sequence in place of a counter that stays locked until the commit. */
  offsetSequence: () => {
    const entry = { topic: 1, partition: 0, position: 1, bytes: 1 };
    const [lock, append, ...others] = statementsOf((tx) => appendEntries([entry], tx));
    if (others.length > 0) throw new Error('entries are written with other statements');
    rewriteStatement(lock, ['FOR NO KEY UPDATE OF tail', '']);
    rewriteStatement(
      append,
      [
        'row_number() OVER (PARTITION BY topic, partition ORDER BY ordinal)',
        `nextval(format('offset_%s_%s', topic, partition))`,
      ],
      ['count(*) AS total', `max(nth) + 1 AS total, pg_sleep(random() * ${PAUSE_SECONDS})`],
      ['tail.next + counted.total', 'GREATEST(tail.next, counted.total)'],
      ['tail.next - counted.total AS first', '1 AS first'],
    );
  },
  /** A commit does not check whether the member owns the partition. */
  commitFence: () => {
    const [commit] = statementsOf((tx) => PollStore.prototype.commit('', '', [], tx));
    rewriteStatement(commit, [
      'AND cursor.fence = item.fence AND cursor.owner = $2::uuid',
      'AND $2::uuid IS NOT NULL',
    ]);
  },
  /** A partition that moves from a live member to another does not drain: the new one starts behind what is in flight. */
  drain: () =>
    replaceMethod(
      GroupsStore,
      'lockCursors',
      (lockCursors) =>
        async function (row, tx) {
          const cursors = await lockCursors.call(this, row, tx);
          const alive = await this.members(row, tx);
          return cursors.map((cursor) =>
            cursor.owner !== null && alive.includes(cursor.owner)
              ? { ...cursor, committed: cursor.handed }
              : cursor,
          );
        },
    ),
  /** What a dead member had in flight is not handed out again. */
  handBack: () =>
    replaceMethod(
      GroupsStore,
      'update',
      (update) =>
        function (row, changes, tx) {
          const kept = changes.map(({ before, after }) => ({
            before,
            after: after.deaths > before.deaths ? { ...after, handed: before.handed } : after,
          }));
          return update.call(this, row, kept, tx);
        },
    ),
  /** A silent member stays a member. */
  session: () => replaceMethod(GroupsStore, 'dropExpired', () => async () => []),
} as const;

/** The sequences that `offsetSequence` takes offsets from. */
export async function createOffsetSequences(database: ObserverDatabase): Promise<void> {
  const names = TOPICS.map(({ name }) => name);
  const partitions = await database.query<{ topic: number; partition: number }>(
    `SELECT tail.topic, tail.partition FROM topic_partition AS tail JOIN topic ON topic.number = tail.topic
     WHERE topic.name = ANY ($1)`,
    [names],
  );
  for (const { topic, partition } of partitions)
    await database.query(`CREATE SEQUENCE offset_${topic}_${partition} MINVALUE 0`);
}
