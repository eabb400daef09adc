type Hook = (work: () => Promise<void>) => unknown;

/** What the kit needs of a test runner: jest and vitest say beforeAll and afterAll, node:test and mocha before and after. */
export interface RunnerHooks {
  readonly beforeAll?: Hook;
  readonly before?: Hook;
  readonly afterAll?: Hook;
  readonly after?: Hook;
}

/** The hooks that were passed, else those that the runner has made global. */
export function hooksOf(runner: RunnerHooks = globalThis as RunnerHooks): {
  beforeAll: Hook;
  afterAll: Hook;
} {
  const beforeAll = runner.beforeAll ?? runner.before;
  const afterAll = runner.afterAll ?? runner.after;
  if (beforeAll && afterAll) return { beforeAll, afterAll };
  throw new Error(
    'readModelTest finds no beforeAll and afterAll: pass those of your test runner, for example ' +
      "import { after, before } from 'node:test'; readModelTest(model, { before, after })",
  );
}
