import { type INestApplication, Injectable } from '@nestjs/common';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { VERSION } from '../version.ts';
import { withProblems } from './openapi-problems.ts';

/** In the order a newcomer meets them; what is not named here, such as a read model's tag, follows. */
const TAGS = [
  { name: 'messages', description: 'Messages in, and what became of them.' },
  { name: 'listeners', description: 'Who is sent what, and the deliveries to them.' },
  {
    name: 'dead letters',
    description: 'Messages and deliveries that were given up: revive or discard them.',
  },
  { name: 'holds', description: 'Keys whose messages wait.' },
  { name: 'schedules', description: 'Messages posted by cron expressions.' },
  { name: 'operations', description: 'Health, metrics, backlog and what operators did.' },
  { name: 'api keys', description: 'Who may call.' },
];

/** The OpenAPI document, made once from the controllers' decorators. */
@Injectable()
export class OpenApi {
  private made: OpenAPIObject | undefined;

  describe(app: INestApplication): void {
    const about = new DocumentBuilder()
      .setTitle('Sluice')
      .setDescription('Messages in, read models, deliveries out. Errors are application/problem+json.')
      .setVersion(VERSION)
      .addBearerAuth({
        type: 'http',
        scheme: 'bearer',
        bearerFormat: 'sk_<id>_<secret>',
        description: 'An api key.',
      })
      .build();
    about.tags = TAGS;
    this.made = withTexts(withProblems(SwaggerModule.createDocument(app, about)));
  }

  get document(): OpenAPIObject {
    if (!this.made) throw new Error('the application is not described yet');
    return this.made;
  }
}

/** A parameter whose type nobody said is text. */
function withTexts(document: OpenAPIObject): OpenAPIObject {
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
