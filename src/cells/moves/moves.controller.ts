import { Body, Controller, Get, HttpCode, Inject, Param, Post, Req } from '@nestjs/common';
import { ApiOperation, ApiParam, ApiProperty, ApiResponse, ApiTags } from '@nestjs/swagger';
import { IsString, Length } from 'class-validator';
import type { FastifyRequest } from 'fastify';
import { Database } from '../../database/database.ts';
import { Allow } from '../../http/access.ts';
import { AuditLog } from '../../http/audit/audit-log.ts';
import { invalidFields, Problem } from '../../http/problems.ts';
import { queryOf } from '../../http/query.ts';
import { validBody } from '../../http/valid-body.ts';
import { CELLS } from '../cells-token.ts';
import type { CellsView } from '../cells-view.ts';
import { slotsOf } from '../slot-ranges.ts';
import { listMoves, type Move, requestMoves } from './move-store.ts';
import { MOVE_LIST, type MoveListView, type MoveView } from './moves.openapi.ts';

export class MoveSlots {
  @ApiProperty({ example: '0-15,130', description: 'Slots of any cells, as ranges.' })
  @IsString()
  @Length(1, 1_000)
  slots: string;
}

@ApiTags('operations')
@Controller('v1/cells')
export class MovesController {
  constructor(
    @Inject(CELLS) private readonly cells: CellsView,
    private readonly home: Database,
    private readonly audit: AuditLog,
  ) {}

  @Get('moves')
  @Allow('read')
  @ApiOperation({ summary: 'Moves of slots that wait or are in progress, and the last 256 that ended.' })
  @ApiResponse({ status: 200, description: 'The moves, latest first.', schema: MOVE_LIST })
  async list(@Req() request: FastifyRequest): Promise<MoveListView> {
    queryOf(request.query, []);
    return { items: (await listMoves(this.home)).map((move) => this.view(move)) };
  }

  @Post(':name/slots')
  @HttpCode(202)
  @Allow('admin')
  @ApiOperation({ summary: 'Move slots to this cell, one after the other.' })
  @ApiParam({ name: 'name', description: 'The name of a cell.' })
  @ApiResponse({ status: 202, description: 'Slots that are not there yet will be moved.', schema: MOVE_LIST })
  @ApiResponse({ status: 404, description: 'No cell has this name.' })
  @ApiResponse({ status: 409, description: 'One of the slots is being moved already.' })
  async move(
    @Param('name') name: string,
    @Body(validBody(MoveSlots)) body: MoveSlots,
    @Req() { caller }: FastifyRequest,
  ): Promise<MoveListView> {
    const to = this.cells.byName(name) && this.cells.catalogue.numberOf(name);
    if (to === undefined) throw new Problem('not-found', 'There is no such cell.');
    const slots = slotsOf(body.slots);
    if (!slots)
      throw invalidFields([{ pointer: '/slots', detail: 'must be ranges of slots, such as 0-15,130' }]);
    const moves = await requestMoves(this.home, this.audit, { slots, to, name, by: caller.name });
    return { items: moves.map((move) => this.view(move)) };
  }

  private view({ from, to, ...move }: Move): MoveView {
    const { catalogue } = this.cells;
    return { ...move, from: catalogue.nameOf(from), to: catalogue.nameOf(to) };
  }
}
