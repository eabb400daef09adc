import { type INestApplication, Injectable } from '@nestjs/common';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { VERSION } from '../version.ts';
import { withProblems } from './openapi-problems.ts';

/** In the order a new user needs them; other tags, such as those of read models, follow. */
const TAGS = [
  { name: 'messages', description: 'Post messages and follow their processing.' },
  { name: 'listeners', description: 'Webhook receivers and the deliveries to them.' },
  {
    name: 'dead letters',
    description: 'Messages and deliveries that failed for good: revive or discard them.',
  },
  { name: 'holds', description: 'Keys whose messages wait.' },
  { name: 'schedules', description: 'Messages posted on a cron schedule.' },
  { name: 'operations', description: 'Health, metrics, backlog and the audit log.' },
  { name: 'api keys', description: 'Keys for callers of this API.' },
];

/** The OpenAPI document, built once from the decorators of the controllers. */
@Injectable()
export class OpenApi {
  private built: OpenAPIObject | undefined;

  describe(app: INestApplication): void {
    const about = new DocumentBuilder()
      .setTitle('Sluice')
      .setDescription('Messages in, read models, deliveries out. Errors are application/problem+json.')
      .setVersion(VERSION)
      .addBearerAuth({
        type: 'http',
        scheme: 'bearer',
        bearerFormat: 'sk_<id>_<secret>',
        description: 'An API key.',
      })
      .build();
    about.tags = TAGS;
    this.built = withStringParameters(withProblems(SwaggerModule.createDocument(app, about)));
  }

  get document(): OpenAPIObject {
    if (!this.built) throw new Error('describe() has not been called');
    return this.built;
  }
}

/** A parameter without a declared type is a string. */
function withStringParameters(document: OpenAPIObject): OpenAPIObject {
  const parameters = Object.values(document.paths)
    .flatMap((path) => [path.get, path.post, path.put, path.patch, path.delete])
    .flatMap((operation) => operation?.parameters ?? []);
  for (const parameter of parameters) {
    if ('schema' in parameter && Object.keys(parameter.schema ?? {}).length === 0) {
      parameter.schema = { type: 'string' };
    }
  }
  return document;
}
