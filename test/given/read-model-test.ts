import { afterAll, beforeAll } from '@jest/globals';
import type { ReadModel } from '../../src/contract/read-model.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { Scenario, type ScenarioContext, type Tested } from './scenario.ts';
import { ScenarioRunner } from './scenario-runner.ts';
import type { TestMessage } from './test-message.ts';

/**
 * For the spec of a read model: its own database, and the `given` that starts a scenario.
 *
 *     const { given } = readModelTest(recruitment);
 *
 *     await given(CandidateDenormalizer, [candidateApplied()])
 *       .when(candidateAccepted(), { times: 2 })
 *       .then(Candidate, [{ id: 'c-1', status: 'accepted' }]);
 *
 * Every scenario is run twice, its messages one by one and all in one batch, and is rolled back.
 */
export function readModelTest(readModel: ReadModel) {
  let database: TestDatabase;
  let scenarios: ScenarioContext | undefined;

  beforeAll(async () => {
    database = await createDatabase();
    scenarios = { runner: await ScenarioRunner.open(database.url, readModel), unawaited: new Set() };
  });
  afterAll(async () => {
    await scenarios?.runner.close();
    await database.drop();
    const [forgotten] = scenarios?.unawaited ?? [];
    if (forgotten) throw new Error(`a scenario was never awaited: ${forgotten.place}`);
  });

  return {
    given: (denormalizers: Tested | readonly Tested[], messages: readonly TestMessage[]): Scenario =>
      new Scenario(() => scenarios!, denormalizers, messages),
  };
}
