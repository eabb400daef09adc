import { Controller, Get, Header } from '@nestjs/common';
import { ApiOperation, ApiProduces, ApiTags } from '@nestjs/swagger';
import { Allow } from '../../http/access.ts';
import { Metrics } from '../../telemetry/metrics.ts';

@ApiTags('operations')
@Controller('metrics')
export class MetricsController {
  constructor(private readonly metrics: Metrics) {}

  @Get()
  @Allow('metrics')
  @Header('content-type', 'text/plain; version=0.0.4; charset=utf-8')
  @ApiProduces('text/plain')
  @ApiOperation({
    summary: 'Prometheus metrics, at most a second old. Open, or scope `read` with METRICS_ACCESS=keyed.',
  })
  read(): Promise<Buffer> {
    return this.metrics.text();
  }
}
