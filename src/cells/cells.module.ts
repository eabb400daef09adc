import { type DynamicModule, Global, Module } from '@nestjs/common';
import type { Database } from '../database/database.ts';
import { MESSAGE_ROUTER, type MessageRouter } from '../inbox/message-router.ts';
import { OWN_LANES, type OwnLanes } from '../inbox/own-lanes.ts';
import { SHARED_DEFINITIONS, type SharedDefinitions } from '../listeners/listeners-store.ts';
import { CELL_REPORTS, type CellReports } from '../upkeep/health/cell-reports.ts';
import { CellsController } from './cells.controller.ts';
import { CELLS } from './cells-token.ts';
import type { CellsView } from './cells-view.ts';
import { MovesController } from './moves/moves.controller.ts';

/** What the engine of a cell gets in addition to everything else. */
@Global()
@Module({})
export class CellsModule {
  /** The home cell: it serves HTTP, and knows the others. */
  static home(cells: CellsView, router: MessageRouter, lanes: OwnLanes, reports: CellReports): DynamicModule {
    return {
      module: CellsModule,
      controllers: [MovesController, CellsController],
      providers: [
        { provide: CELLS, useValue: cells },
        { provide: MESSAGE_ROUTER, useValue: router },
        { provide: OWN_LANES, useValue: lanes },
        { provide: CELL_REPORTS, useValue: reports },
        { provide: SHARED_DEFINITIONS, useValue: { home: undefined } satisfies SharedDefinitions },
      ],
      exports: [MESSAGE_ROUTER, OWN_LANES, CELL_REPORTS, SHARED_DEFINITIONS],
    };
  }

  /** Any other cell: definitions are changed in the home cell. */
  static other(home: Database, lanes: OwnLanes): DynamicModule {
    return {
      module: CellsModule,
      providers: [
        { provide: OWN_LANES, useValue: lanes },
        { provide: SHARED_DEFINITIONS, useValue: { home } satisfies SharedDefinitions },
      ],
      exports: [OWN_LANES, SHARED_DEFINITIONS],
    };
  }
}
