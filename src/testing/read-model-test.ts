import type { ReadModel } from '../contract/read-model.ts';
import { RebuildComparison } from './rebuilt.ts';
import { Scenario, type ScenarioContext, type Tested } from './scenario.ts';
import { ScenarioRunner } from './scenario-runner.ts';
import { openSpecDatabase, type SpecDatabase } from './test-database.ts';
import type { TestMessage } from './test-message.ts';
import { hooksOf, type RunnerHooks } from './test-runner.ts';

/**
 * For the spec of a read model: its own database, and the `given` that starts a scenario.
 *
 *     const { given } = readModelTest(recruitment);
 *
 *     await given(CandidateDenormalizer, [candidateApplied()])
 *       .when(candidateAccepted(), { times: 2 })
 *       .then(Candidate, [{ id: 'c-1', status: 'accepted' }]);
 *
 *     await given(CandidateDenormalizer, [candidateApplied(), candidateAccepted()]).rebuilt();
 *
 * Every scenario is run twice, its messages one by one and all in one batch, and is rolled back. The hooks of the test
 * runner are found if they are global (jest, vitest with `globals`, mocha); otherwise pass them:
 *
 *     import { after, before } from 'node:test';
 *     const { given } = readModelTest(recruitment, { before, after });
 */
export function readModelTest(
  readModel: ReadModel,
  runner?: RunnerHooks,
): { given(denormalizers: Tested | readonly Tested[], messages: readonly TestMessage[]): Scenario } {
  const { beforeAll, afterAll } = hooksOf(runner);
  let database: SpecDatabase | undefined;
  let scenarios: ScenarioContext | undefined;

  beforeAll(async () => {
    database = await openSpecDatabase();
    scenarios = {
      runner: await ScenarioRunner.open(database.url, readModel),
      rebuild: new RebuildComparison(database.url, readModel),
      unawaited: new Set(),
    };
  });
  afterAll(async () => {
    await scenarios?.runner.close();
    await database?.close();
    const [forgotten] = scenarios?.unawaited ?? [];
    if (forgotten) throw new Error(`a scenario was never awaited: ${forgotten.place}`);
  });

  return {
    given: (denormalizers, messages) => new Scenario(() => scenarios!, denormalizers, messages),
  };
}
