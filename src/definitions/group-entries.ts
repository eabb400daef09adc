import { isDeepStrictEqual } from 'node:util';
import { Injectable } from '@nestjs/common';
import type { Transaction } from '../database/transaction.ts';
import type { GroupRow } from '../groups/group.ts';
import { GroupChanges } from '../groups/group-changes.ts';
import { contentOf, definitionView, type GroupDefinition } from '../groups/group-definition.ts';
import { GroupsStore } from '../groups/groups-store.ts';
import { TopicsStore } from '../topics/topics-store.ts';
import {
  BY,
  belongsToApi,
  type Changes,
  CREATED_BY_API,
  definedBy,
  putChanged,
  releaseOthers,
} from './file-origin.ts';
import type { Entry } from './read-definitions-file.ts';
import type { LineFault } from './yaml-lines.ts';

type GroupEntry = Entry<GroupDefinition>;

/** The consumer groups of the file. */
@Injectable()
export class GroupEntries {
  constructor(
    private readonly changes: GroupChanges,
    private readonly store: GroupsStore,
    private readonly topics: TopicsStore,
  ) {}

  /**
   * In the order of the file, after its topics. `defined`: the topics of the file, some of which may have faults. Adds to
   * `faults` what cannot be applied; then the transaction must not be committed.
   */
  async apply(
    entries: readonly GroupEntry[],
    defined: readonly string[],
    faults: LineFault[],
    tx: Transaction,
  ): Promise<Changes> {
    const changes: Changes = { created: [], changed: [], kept: [] };
    for (const entry of entries) {
      const row = await this.store.find(entry.name, tx);
      const known = new Set([...defined, ...(await this.topics.live(tx)).map(({ name }) => name)]);
      const found = row && belongsToApi(row) ? [clash(entry)] : unknownTopics(entry, known);
      faults.push(...found);
      // With a fault nothing is committed, and a topic that the group reads may be missing.
      if (faults.length === 0)
        await putChanged(entry.name, row && changedFields(row, entry), changes, (reason) =>
          this.changes.putIn(tx, { ...definedBy(entry), reason }),
        );
    }
    await releaseOthers(entries, await this.store.ofFile(tx), changes, (name) =>
      this.changes.releaseIn(tx, name, BY),
    );
    return changes;
  }
}

function clash({ name, lineOf }: GroupEntry): LineFault {
  return { line: lineOf(''), detail: `group ${name} ${CREATED_BY_API}` };
}

function unknownTopics({ name, definition, lineOf }: GroupEntry, known: ReadonlySet<string>): LineFault[] {
  return definition.topics.flatMap((topic, index) =>
    known.has(topic)
      ? []
      : [
          {
            line: lineOf(`/topics/${index}`),
            detail: `group ${name} reads topic "${topic}", which neither exists nor is defined in this file`,
          },
        ],
  );
}

/** By the names of the API. */
function changedFields(row: GroupRow, { name, definition }: GroupEntry): string[] {
  const before = definitionView(row);
  const after = definitionView({ ...row, ...contentOf(name, definition, 'file') });
  const fields = Object.keys(after) as (keyof typeof after)[];
  return fields.filter((field) => !isDeepStrictEqual(before[field], after[field])).sort();
}
