import { Controller, Get, type OnModuleInit, Param, Req, Res } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Allow } from '../access.ts';
import { OpenApi } from '../openapi.ts';
import { Problem } from '../problems.ts';
import type { ApiDocument } from './api-document.ts';
import { type DocsFiles, prepareDocs } from './docs-files.ts';

/** The API reference and the OpenAPI document, both built at start. */
@ApiExcludeController()
@Controller()
export class DocsController implements OnModuleInit {
  private files: DocsFiles;

  constructor(private readonly openApi: OpenApi) {}

  async onModuleInit(): Promise<void> {
    this.files = await prepareDocs(this.openApi.document as ApiDocument);
  }

  @Get('openapi.json')
  @Allow('public')
  document(@Req() request: FastifyRequest, @Res() reply: FastifyReply): void {
    this.files.document.send(request, reply);
  }

  /** Redirects `/docs/` to `/docs`: the relative URLs of the page resolve only there. */
  @Get('docs')
  @Allow('public')
  page(@Req() request: FastifyRequest, @Res() reply: FastifyReply): void {
    const [path = ''] = request.url.split('?');
    if (path.endsWith('/')) return void reply.code(308).header('location', '../docs').send();
    this.files.page.send(request, reply);
  }

  @Get('docs/:version/:file')
  @Allow('public')
  asset(
    @Param('version') version: string,
    @Param('file') name: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): void {
    const file = this.files.assets.get(`${version}/${name}`);
    if (!file) throw new Problem('not-found', 'The API reference has no such file.');
    file.send(request, reply);
  }
}
