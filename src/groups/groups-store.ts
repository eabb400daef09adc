import { Injectable } from '@nestjs/common';
import { Database } from '../database/database.ts';
import type { Transaction } from '../database/transaction.ts';
import { isName } from '../http/names.ts';
import { Problem } from '../http/problems.ts';
import type { Assignment } from './assign.ts';
import type { Cursor } from './cursor.ts';
import { DatabaseContact } from './database-contact.ts';
import type { GroupRow, Start } from './group.ts';
import {
  ADD_CURSORS,
  ADD_MEMBER,
  DELETE_GROUP,
  DELETE_MEMBERS,
  DROP_CURSORS,
  DROP_EXPIRED,
  DROP_REMAINDERS,
  FIND_GROUP,
  GROUPS_OF_FILE,
  GROUPS_PAGE,
  LOCK_CURSORS,
  LOCK_GROUP,
  MEMBERS,
  PUT_GROUP,
  RELEASE_GROUP,
  REMOVE_MEMBER,
  SET_BALANCED,
  SPLIT_CURSOR,
  UPDATE_CURSORS,
} from './groups.sql.ts';

export type GroupContent = Pick<
  GroupRow,
  | 'name'
  | 'definition'
  | 'topics'
  | 'session_ms'
  | 'max_in_flight'
  | 'attempts'
  | 'takeover'
  | 'on_expired'
  | 'origin'
>;

/** A cursor before and after a change. */
export interface CursorChange {
  readonly before: Cursor;
  readonly after: Cursor;
}

/** Groups, their members and their cursors. Whoever changes members or owners locks the group first. */
@Injectable()
export class GroupsStore {
  constructor(
    private readonly database: Database,
    private readonly contact: DatabaseContact,
  ) {}

  async find(name: string, tx: Pick<Transaction, 'query'> = this.database): Promise<GroupRow | undefined> {
    const [row] = isName(name) ? await tx.query<GroupRow>(FIND_GROUP, [name]) : [];
    return row;
  }

  async existing(name: string, tx?: Transaction): Promise<GroupRow> {
    const row = await this.find(name, tx);
    if (!row) throw noGroup();
    return row;
  }

  /** Throws a 404 if there is none. */
  async lock(name: string, tx: Transaction): Promise<GroupRow> {
    const [row] = isName(name) ? await tx.query<GroupRow>(LOCK_GROUP, [name]) : [];
    if (!row) throw noGroup();
    return row;
  }

  page(after: string | undefined, limit: number): Promise<GroupRow[]> {
    return this.database.query(GROUPS_PAGE, [after ?? '', limit]);
  }

  async put(content: GroupContent, by: string, tx: Transaction): Promise<GroupRow> {
    const { name, definition, topics, session_ms, max_in_flight, attempts, takeover, on_expired, origin } =
      content;
    const terms = [session_ms, max_in_flight, attempts, takeover, on_expired, origin, by];
    const [row] = await tx.query<GroupRow>(PUT_GROUP, [name, JSON.stringify(definition), topics, ...terms]);
    return row!;
  }

  ofFile(tx: Transaction): Promise<GroupRow[]> {
    return tx.query(GROUPS_OF_FILE);
  }

  async release(name: string, by: string, tx: Transaction): Promise<void> {
    await tx.execute(RELEASE_GROUP, [name, by]);
  }

  /** The group is locked. */
  async delete(row: GroupRow, tx: Transaction): Promise<void> {
    await tx.execute(DELETE_MEMBERS, [row.number]);
    await this.lockCursors(row, tx);
    await tx.execute(DELETE_GROUP, [row.number]);
  }

  /** One cursor for each partition of the group's topics, and none for others. */
  async matchCursors({ number, definition }: GroupRow, tx: Transaction): Promise<void> {
    await tx.execute(DROP_CURSORS, [number]);
    await tx.execute(ADD_CURSORS, [number, startText(definition.start)]);
  }

  /** Removes the members whose session is over, and returns their ids. */
  async dropExpired({ number }: GroupRow, tx: Transaction): Promise<string[]> {
    const rows = await tx.query<{ id: string }>(DROP_EXPIRED, [number, this.contact.forMs]);
    return rows.map(({ id }) => id);
  }

  async members({ number }: GroupRow, tx: Transaction): Promise<string[]> {
    const rows = await tx.query<{ id: string }>(MEMBERS, [number]);
    return rows.map(({ id }) => id);
  }

  async addMember({ number }: GroupRow, name: string | undefined, tx: Transaction): Promise<string> {
    const [row] = await tx.query<{ id: string }>(ADD_MEMBER, [number, name ?? null]);
    return row!.id;
  }

  async removeMember({ number }: GroupRow, member: string, tx: Transaction): Promise<boolean> {
    return (await tx.execute(REMOVE_MEMBER, [number, member])) > 0;
  }

  async lockCursors({ number }: GroupRow, tx: Transaction): Promise<Cursor[]> {
    await tx.execute(DROP_REMAINDERS, [number]);
    return tx.query<Cursor>(LOCK_CURSORS, [number]);
  }

  /** Leaves what the owner has in flight to it, and returns the rest of the cursor, without an owner. */
  async split({ number }: GroupRow, { cursor }: Assignment, tx: Transaction): Promise<Cursor> {
    const { topic, partition, start, handed, owner } = cursor;
    await tx.execute(SPLIT_CURSOR, [number, topic, partition, start]);
    return {
      ...cursor,
      start: handed + 1,
      committed: handed,
      owner: null,
      former_owner: owner,
      draining: false,
      deaths: 0,
      retry_to: -1,
    };
  }

  async update({ number }: GroupRow, changes: readonly CursorChange[], tx: Transaction): Promise<void> {
    if (changes.length === 0) return;
    const after = <K extends keyof Cursor>(name: K) => changes.map((change) => change.after[name]);
    await tx.execute(UPDATE_CURSORS, [
      number,
      changes.map(({ before }) => before.topic),
      changes.map(({ before }) => before.partition),
      changes.map(({ before }) => before.start),
      after('start'),
      after('committed'),
      after('handed'),
      after('owner'),
      after('former_owner'),
      after('draining'),
      after('deaths'),
      after('retry_to'),
    ]);
  }

  async setBalanced({ number }: GroupRow, changedMembers: boolean, tx: Transaction): Promise<void> {
    await tx.execute(SET_BALANCED, [number, changedMembers ? 1 : 0]);
  }
}

export function startText(start: Start): string {
  return typeof start === 'string' ? start : start.time;
}

/** A name that is none is not queried: it may contain characters that PostgreSQL refuses. */
export function groupName(name: string): string {
  if (!isName(name)) throw noGroup();
  return name;
}

export function noGroup(): Problem {
  return new Problem('not-found', 'No group has this name.');
}

export function memberUnknown(): Problem {
  return new Problem(
    'member-unknown',
    'The group has no such member: its session is over, or it left. Join again.',
  );
}
