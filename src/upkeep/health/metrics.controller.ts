import { Controller, Get, Header, Inject, Optional } from '@nestjs/common';
import { ApiOperation, ApiProduces, ApiResponse, ApiTags } from '@nestjs/swagger';
import { Allow } from '../../http/access.ts';
import { TEXT } from '../../http/schema.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import { CELL_REPORTS, type CellReports } from './cell-reports.ts';

@ApiTags('operations')
@Controller('metrics')
export class MetricsController {
  constructor(
    private readonly metrics: Metrics,
    @Optional() @Inject(CELL_REPORTS) private readonly cells: CellReports | undefined,
  ) {}

  @Get()
  @Allow('metrics')
  @Header('content-type', 'text/plain; version=0.0.4; charset=utf-8')
  @ApiProduces('text/plain')
  @ApiOperation({
    summary: 'Prometheus metrics, at most a second old. Open, or scope `read` with METRICS_ACCESS=keyed.',
  })
  @ApiResponse({ status: 200, description: 'In the text format of Prometheus.', schema: TEXT })
  @ApiResponse({ status: 401, description: 'Missing or invalid API key, with METRICS_ACCESS=keyed.' })
  @ApiResponse({ status: 403, description: 'The API key lacks the scope `read`, with METRICS_ACCESS=keyed.' })
  read(): Promise<Buffer> {
    return this.cells ? this.cells.metrics() : this.metrics.text();
  }
}
