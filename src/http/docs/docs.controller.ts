import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { Controller, Get, Header, Param, Res } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { Allow } from './access.ts';
import { OpenApi } from './openapi.ts';
import { Problem } from './problems.ts';

const ASSETS: Record<string, string> = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'favicon-32x32.png': 'image/png',
};

const PAGE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>Sluice API</title>
    <link rel="icon" href="/docs/favicon-32x32.png">
    <link rel="stylesheet" href="/docs/swagger-ui.css">
  </head>
  <body>
    <div id="ui"></div>
    <script src="/docs/swagger-ui-bundle.js"></script>
    <script src="/docs/start.js"></script>
  </body>
</html>
`;
const START = `SwaggerUIBundle({ url: '/openapi.json', dom_id: '#ui', deepLinking: true });\n`;

/** Everything comes from here, nothing runs inline; Swagger UI writes styles of its own. */
const CONTENT_SECURITY =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'";

/** Swagger UI and the document it shows. Four files do not need a plugin for static files. */
@ApiExcludeController()
@Controller()
export class DocsController {
  private readonly folder = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));

  constructor(private readonly openApi: OpenApi) {}

  @Get('openapi.json')
  @Allow('public')
  document() {
    return this.openApi.document;
  }

  @Get('docs')
  @Allow('public')
  @Header('content-type', 'text/html; charset=utf-8')
  @Header('content-security-policy', CONTENT_SECURITY)
  page(): string {
    return PAGE;
  }

  @Get('docs/:file')
  @Allow('public')
  asset(@Param('file') file: string, @Res() reply: FastifyReply): void {
    if (file === 'start.js') return void reply.type(ASSETS['swagger-ui-bundle.js']!).send(START);
    const type = Object.hasOwn(ASSETS, file) ? ASSETS[file] : undefined;
    if (!type) throw new Problem('not-found', 'The documentation has no such file.');
    void reply
      .type(type)
      .header('cache-control', 'max-age=86400')
      .send(readFileSync(join(this.folder, file)));
  }
}
