import { Controller, Get, Req } from '@nestjs/common';
import { ApiOperation, ApiQuery, ApiTags } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { Allow } from '../access.ts';
import { ApiPage, pageOf, pageRequest } from '../pages.ts';
import { Problem } from '../problems.ts';
import { queryOf } from '../query.ts';
import { TIME } from '../schema.ts';
import { timeParameter } from '../time.ts';
import { AUDIT_ENTRY, type AuditEntryView } from './audit.openapi.ts';
import { ACTIONS, AuditLog } from './audit-log.ts';

const GROUPS = [...new Set(ACTIONS.map((action) => `${action.split('.')[0]}.*`))];

@ApiTags('operations')
@Controller('v1/audit')
export class AuditController {
  constructor(private readonly audit: AuditLog) {}

  @Get()
  @Allow('read')
  @ApiOperation({
    summary: 'List the actions of operators: who, what, when, to how many and why. Newest first.',
  })
  @ApiQuery({
    name: 'since',
    required: false,
    schema: TIME,
    description: 'Only actions at or after this time (RFC 3339).',
  })
  @ApiQuery({
    name: 'action',
    required: false,
    enum: [...ACTIONS, ...GROUPS],
    description: 'An action, or a group such as `listener.*`.',
  })
  @ApiPage(AUDIT_ENTRY)
  async list(@Req() request: FastifyRequest) {
    const query = queryOf(request.query, ['since', 'action', 'limit', 'cursor']);
    const page = pageRequest(query, (value): value is number => Number.isSafeInteger(value));
    const filter = { since: timeParameter('since', query.since), action: actionOf(query.action) };
    const rows = await this.audit.list(filter, page.after, page.limit + 1);
    return pageOf(
      rows,
      page.limit,
      (row) => row.id,
      ({ id, at, by, action, target, filter, count, reason }): AuditEntryView => ({
        id: String(id),
        at,
        by,
        action,
        target,
        filter,
        count,
        reason,
      }),
    );
  }
}

function actionOf(text: string | undefined): string | undefined {
  if (text === undefined || [...ACTIONS, ...GROUPS].includes(text)) return text;
  throw new Problem('invalid', `action must be one of ${[...ACTIONS, ...GROUPS].join(', ')}.`);
}
