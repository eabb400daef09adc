import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, it } from '@jest/globals';
import { RULES } from '../../src/cells/route-rules.ts';

interface Document {
  readonly paths: Record<string, Record<string, { readonly 'x-scope'?: string }>>;
}

// openapi.spec.ts compares it with the routes that are served.
const { paths } = JSON.parse(
  readFileSync(resolve(import.meta.dirname, 'openapi.snapshot.json'), 'utf8'),
) as Document;
/** Not part of the service; their rule follows from their path. */
const OF_READ_MODELS = /^\/v1\/(candidates|vacancies)(\/|$)/;
/** Only with CELLS; only with METRICS_ACCESS=keyed. */
const BY_SETTINGS = ['GET /v1/cells', 'GET /v1/cells/moves', 'POST /v1/cells/:name/slots', 'GET /metrics'];

it('every route with a caller has a rule for cells, and every rule a route', () => {
  const routes = Object.entries(paths)
    .filter(([path]) => !OF_READ_MODELS.test(path))
    .flatMap(([path, operations]) =>
      Object.entries(operations)
        .filter(([, operation]) => operation['x-scope'] !== undefined)
        .map(([method]) => `${method.toUpperCase()} ${path.replace(/\{(\w+)\}/g, ':$1')}`),
    );
  expect(Object.keys(RULES).sort()).toEqual([...routes, ...BY_SETTINGS].sort());
});
