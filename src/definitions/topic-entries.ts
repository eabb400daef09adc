import { isDeepStrictEqual } from 'node:util';
import { Injectable } from '@nestjs/common';
import type { Transaction } from '../database/transaction.ts';
import { TopicChanges } from '../topics/topic-changes.ts';
import { retentionOf, type TopicDefinition, typesOf } from '../topics/topic-definition.ts';
import { type TopicRow, TopicsStore } from '../topics/topics-store.ts';
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

type TopicEntry = Entry<TopicDefinition>;

/** The topics of the file. */
@Injectable()
export class TopicEntries {
  constructor(
    private readonly changes: TopicChanges,
    private readonly store: TopicsStore,
  ) {}

  /** Adds to `faults` what cannot be applied; then the transaction must not be committed. */
  async apply(entries: readonly TopicEntry[], faults: LineFault[], tx: Transaction): Promise<Changes> {
    const before = new Map((await this.store.live(tx)).map((row) => [row.name, row]));
    const changes: Changes = { created: [], changed: [], kept: [] };
    for (const entry of entries) {
      const row = before.get(entry.name);
      const fault = row && faultOf(entry, row);
      if (fault) faults.push(fault);
      else
        await putChanged(entry.name, row && changedFields(row, entry), changes, (reason) =>
          this.changes.putIn(tx, { ...definedBy(entry), reason }),
        );
    }
    const ofFile = [...before.values()].filter(({ origin }) => origin === 'file');
    await releaseOthers(entries, ofFile, changes, (name) => this.changes.releaseIn(tx, name, BY));
    return changes;
  }
}

function faultOf({ name, definition, lineOf }: TopicEntry, row: TopicRow): LineFault | undefined {
  const { partitions = row.partitions } = definition;
  if (belongsToApi(row)) return { line: lineOf(''), detail: `topic ${name} ${CREATED_BY_API}` };
  if (partitions === row.partitions) return undefined;
  const detail = `topic ${name} has ${row.partitions} partitions, which cannot change; leave partitions out, or rename it`;
  return { line: lineOf('/partitions'), detail };
}

function changedFields(row: TopicRow, { name, definition }: TopicEntry): string[] {
  return [
    ...(row.origin === 'file' ? [] : ['origin']),
    ...(row.retention_ms === retentionOf(definition) ? [] : ['retention']),
    ...(isDeepStrictEqual(row.types, typesOf(name, definition)) ? [] : ['types']),
  ];
}
