import { Controller, Get, Param, Req, Res } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Allow } from '../access.ts';
import { Problem } from '../problems.ts';
import { ConsoleFiles } from './console-files.ts';

/** The operator's console. All locations are relative, so that it works below any path of a proxy. */
@ApiExcludeController()
@Controller()
export class ConsoleController {
  constructor(private readonly files: ConsoleFiles) {}

  /** Browsers are redirected to the console; for programs there is nothing here. */
  @Get()
  @Allow('console')
  root(@Req() request: FastifyRequest, @Res() reply: FastifyReply): void {
    void reply.header('vary', 'accept');
    if (!/\btext\/html\b/.test(request.headers.accept ?? ''))
      throw new Problem('not-found', 'No route matches this path.');
    void reply.code(302).header('location', 'console/').send();
  }

  /** Redirects `/console` to `/console/`: the relative URLs of the page resolve only there. */
  @Get('console')
  @Allow('console')
  page(@Req() request: FastifyRequest, @Res() reply: FastifyReply): void {
    const [path = ''] = request.url.split('?');
    if (!path.endsWith('/')) return void reply.code(308).header('location', 'console/').send();
    if (!this.files.index)
      throw new Problem('not-found', 'The console has not been built. Run "npm run build" and start again.');
    this.files.index.send(request, reply);
  }

  @Get('console/assets/:file')
  @Allow('console')
  asset(@Param('file') name: string, @Req() request: FastifyRequest, @Res() reply: FastifyReply): void {
    const file = this.files.assets.get(name);
    if (!file) throw new Problem('not-found', 'The console has no such file.');
    file.send(request, reply);
  }
}
