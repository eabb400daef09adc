import { type INestApplication, Injectable } from '@nestjs/common';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { VERSION } from '../version.ts';
import { withNamedSchemas } from './named-schemas.ts';
import { withProblems } from './openapi-problems.ts';
import { TEXT } from './schema.ts';

type Operation = NonNullable<OpenAPIObject['paths'][string]['get']>;

/** In the order a new user needs them; other tags, such as those of read models, follow. */
const TAGS = [
  { name: 'messages', description: 'Post messages and follow their processing.' },
  { name: 'listeners', description: 'Webhook receivers and the deliveries to them.' },
  { name: 'topics', description: 'Logs of messages that consumers read at their own pace.' },
  { name: 'groups', description: 'Consumers that share the partitions of topics.' },
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
      .setDescription(
        'Messages in, read models, deliveries out. Errors are application/problem+json. Every response has an `x-request-id`. Later versions may add members to responses; ignore those you do not know.',
      )
      .setVersion(VERSION)
      .addBearerAuth({
        type: 'http',
        scheme: 'bearer',
        bearerFormat: 'sk_<id>_<secret>',
        description: 'An API key.',
      })
      .build();
    about.tags = TAGS;
    const declared = SwaggerModule.createDocument(app, about);
    this.built = withNamedSchemas(withEtags(withStringParameters(withProblems(declared))));
  }

  get document(): OpenAPIObject {
    if (!this.built) throw new Error('describe() has not been called');
    return this.built;
  }
}

/** A parameter without a declared type is a string. */
function withStringParameters(document: OpenAPIObject): OpenAPIObject {
  for (const parameter of operationsOf(document).flatMap(({ parameters = [] }) => parameters)) {
    if ('schema' in parameter && Object.keys(parameter.schema ?? {}).length === 0) {
      parameter.schema = { type: 'string' };
    }
  }
  return document;
}

/** What can be unmodified has an ETag. @Etag() cannot declare it: it would replace the body that is declared elsewhere. */
function withEtags(document: OpenAPIObject): OpenAPIObject {
  const headers = { ETag: { description: 'A hash of the body.', required: true, schema: TEXT } };
  for (const { responses } of operationsOf(document)) {
    if (!responses['304']) continue;
    for (const status of ['200', '304']) Object.assign(responses[status] ?? {}, { headers });
  }
  return document;
}

function operationsOf({ paths }: OpenAPIObject): Operation[] {
  return Object.values(paths)
    .flatMap((path) => [path.get, path.post, path.put, path.patch, path.delete])
    .filter((operation) => operation !== undefined);
}
