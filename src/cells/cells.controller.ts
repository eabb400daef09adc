import { Controller, Get, Inject } from '@nestjs/common';
import { ApiOperation, ApiResponse, ApiTags } from '@nestjs/swagger';
import { Allow } from '../http/access.ts';
import { CELL_LIST, type CellListView } from './cells.openapi.ts';
import { CELLS } from './cells-token.ts';
import type { CellsView } from './cells-view.ts';
import { rangesOf } from './slot-ranges.ts';

@ApiTags('operations')
@Controller('v1/cells')
export class CellsController {
  constructor(@Inject(CELLS) private readonly cells: CellsView) {}

  @Get()
  @Allow('read')
  @ApiOperation({
    summary: 'The cells as this replica sees them, and which slots each has. Only with CELLS.',
  })
  @ApiResponse({ status: 200, description: 'All cells.', schema: CELL_LIST })
  list(): CellListView {
    const { catalogue, all, home } = this.cells;
    const slots = catalogue.all();
    return {
      items: all.map((cell) => {
        const { name, state, reason, served, definitionsCurrent } = cell;
        const number = catalogue.numberOf(name) ?? null;
        const own = slots.filter((one) => one.cell === number).map(({ slot }) => slot);
        const isHome = cell === home;
        return {
          ...{ name, number, home: isHome, state, reason, served, definitionsCurrent },
          ...{ slots: own.length, ranges: rangesOf(own) },
        };
      }),
      version: catalogue.version,
    };
  }
}
