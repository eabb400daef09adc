/** ESM, transformed by swc; every file that needs a database gets its own, cloned from a migrated template. */
export default {
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        jsc: {
          target: 'es2022',
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: false },
        },
        module: { type: 'es6' },
        sourceMaps: 'inline',
      },
    ],
  },
  testMatch: ['<rootDir>/{src,test,packages/client/src}/**/*.spec.ts'],
  setupFiles: ['<rootDir>/test/support/property-seed.ts'],
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
  // Only what hangs takes that long: no test is a measure of how busy the machine is.
  testTimeout: 240_000,
  // More than the two cores of a small machine: two tests at a time, which often wait, used 70 % of them.
  maxWorkers: 3,
  // Modules of earlier files stay in the memory of a worker; at 4 GB it mostly collects garbage.
  workerIdleMemoryLimit: '1500MB',
};
