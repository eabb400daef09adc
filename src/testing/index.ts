/* The entry `sluice/testing` of the package: the test kit for read models. It works with any test runner. */

export { readModelTest } from './read-model-test.ts';
export type { Tested } from './scenario.ts';
export { messageOf, type TestMessage } from './test-message.ts';
export type { RunnerHooks } from './test-runner.ts';
