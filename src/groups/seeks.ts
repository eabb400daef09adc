import { Injectable } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsBoolean } from 'class-validator';
import { Database } from '../database/database.ts';
import { AuditLog } from '../http/audit/audit-log.ts';
import { aText, Must, wholeFrom } from '../http/definition-rules.ts';
import { Optional } from '../http/optional.ts';
import { Problem } from '../http/problems.ts';
import { utcOf } from '../http/time.ts';
import type { Start } from './group.ts';
import { GroupBalancer } from './group-balancer.ts';
import { aStart } from './group-definition.ts';
import { type SoughtOffsets, TARGET } from './groups.openapi.ts';
import { GroupsStore } from './groups-store.ts';
import { LIVE_MEMBERS, SEEK, SEEK_TARGETS } from './seek.sql.ts';

export class SeekRequest {
  @ApiProperty({ oneOf: TARGET.oneOf!, description: 'The next message to read.' })
  @Must(aTarget)
  to: Start | { readonly offset: number };

  @ApiPropertyOptional({ description: 'Default: all topics of the group.' })
  @Optional()
  @Must(aText)
  topic?: string;

  @ApiPropertyOptional({ type: 'integer', minimum: 0, maximum: 255, description: 'Default: all partitions.' })
  @Optional()
  @Must(wholeFrom(0, 255))
  partition?: number;

  @ApiPropertyOptional({ default: false, description: 'Only report what would change.' })
  @Optional()
  @IsBoolean({ message: 'must be true or false' })
  dryRun?: boolean;
}

interface Target {
  readonly topic: string;
  readonly number: number;
  readonly partition: number;
  readonly from: number;
  readonly to: number;
}

/** Moves the offsets of a group, back or forth; a commit never moves one back. */
@Injectable()
export class Seeks {
  constructor(
    private readonly database: Database,
    private readonly groups: GroupsStore,
    private readonly balancer: GroupBalancer,
    private readonly audit: AuditLog,
  ) {}

  async seek(group: string, request: SeekRequest, by: string): Promise<SoughtOffsets> {
    const { topic, partition, dryRun = false } = request;
    const done = await this.database.transaction(async (tx) => {
      const row = await this.groups.lock(group, tx);
      const [live] = await tx.query<{ count: number }>(LIVE_MEMBERS, [row.number]);
      if (!dryRun && live!.count > 0) throw groupActive(live!.count);
      const values = [row.number, topic ?? null, partition ?? null, ...targetOf(request.to)];
      const targets = await tx.query<Target>(SEEK_TARGETS, values);
      if (targets.length === 0) throw new Problem('not-found', 'The group reads no such topic or partition.');
      if (dryRun) return { row, targets };
      // Members that are no longer alive lose their partitions here, not at the next poll.
      await this.groups.lockCursors(row, tx);
      await tx.execute(SEEK, [
        row.number,
        targets.map(({ number }) => number),
        targets.map((target) => target.partition),
        targets.map(({ to }) => to),
      ]);
      await this.audit.record(
        { by, action: 'group.seek', target: group, filter: request, count: targets.length },
        tx,
      );
      return { row, targets };
    });
    if (!dryRun) this.balancer.announce(done.row);
    const partitions = done.targets.map(({ number: _, ...target }) => target);
    const again = partitions.reduce((sum, { from, to }) => sum + Math.max(0, from - to), 0);
    const skipped = partitions.reduce((sum, { from, to }) => sum + Math.max(0, to - from), 0);
    return { dryRun, again, skipped, partitions };
  }
}

function groupActive(members: number): Problem {
  return new Problem(
    'group-active',
    `The group has ${members} live members, whose next commits would undo the seek. Stop them first; with "dryRun": true it can be tried now.`,
  );
}

function targetOf(to: SeekRequest['to']): [string, number | null, string | null] {
  if (typeof to === 'string') return [to, null, null];
  return 'offset' in to ? ['offset', to.offset, null] : ['time', null, utcOf(to.time)!];
}

function aTarget(value: unknown): string | undefined {
  const isOffset = typeof value === 'object' && value !== null && Object.keys(value).join() === 'offset';
  if (isOffset) {
    const fault = wholeFrom(0, Number.MAX_SAFE_INTEGER)((value as { offset: unknown }).offset);
    return fault && `has an offset that ${fault}`;
  }
  return aStart(value) && 'must be "earliest", "latest", {"time": …} with an RFC 3339 time, or {"offset": …}';
}
