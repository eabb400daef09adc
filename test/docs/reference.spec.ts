import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { commandsReference, generatedPartOf, metricsReference, writeGeneratedPart } from './reference.ts';

/** Set by `npm run docs:reference`: write the pages instead of comparing them. */
const WRITE = process.env.WRITE_REFERENCE === '1';

function isCurrent(page: string, text: string): void {
  if (WRITE) writeGeneratedPart(page, text);
  expect(generatedPartOf(page)).toBe(text);
}

describe('the reference', () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await TestCluster.open();
  });
  afterAll(() => cluster.close());

  it('has every command as its help prints it; npm run docs:reference writes it', async () => {
    const reference = await commandsReference();
    expect(reference.match(/^## /gm)!.length).toBeGreaterThan(5);
    isCurrent('docs/reference/cli.md', reference);
  });

  it('has every metric of a running replica; npm run docs:reference writes it', async () => {
    const reference = await metricsReference(cluster.replica.app.nest.get(Metrics).registry);
    expect(reference.match(/^\| `sluice_/gm)!.length).toBeGreaterThan(35);
    isCurrent('docs/reference/metrics.md', reference);
  });
});
