/**
 * Imports go one way: foundations ← lanes ← outbox ← inbox, with read models beside the engine.
 * test/architecture/boundaries.spec.ts plants a violation of every rule and sees it caught.
 */
const FOUNDATIONS = 'config|clock|telemetry|database|standbys|http|contract';
const FEATURES =
  'lanes|history|webhooks|brokers|inbox|outbox|listeners|topics|groups|definitions|sources|read-models|rebuild|upkeep';
/** What is put together from everything else: main, app, service, schema and the like. */
const TOP = '^src/[^/]+\\.ts$';
const VERSION = '^src/version\\.ts$';
const SPEC = '\\.spec\\.ts$';

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    {
      name: 'foundations-know-no-feature',
      severity: 'error',
      comment: 'config, clock, telemetry, database, standbys, http and contract are what features stand on.',
      from: { path: `^src/(${FOUNDATIONS})/` },
      to: { path: [`^src/(${FEATURES})/`, TOP], pathNot: VERSION },
    },
    {
      name: 'config-imports-no-feature',
      severity: 'error',
      comment: 'Settings are read before anything else exists.',
      from: { path: '^src/config/' },
      to: { path: `^src/(?!config/)` },
    },
    {
      name: 'lanes-import-only-foundations',
      severity: 'error',
      comment: 'The lane queue serves inbox and listeners alike, so it knows neither.',
      from: { path: '^src/lanes/' },
      to: { path: `^src/(?!(${FOUNDATIONS}|lanes)/)` },
    },
    {
      name: 'inbox-sees-only-the-fan-out-of-the-outbox',
      severity: 'error',
      comment: 'And foundations, lanes, itself: what comes in does not know how it goes out.',
      from: { path: '^src/inbox/' },
      to: { path: `^src/(?!(${FOUNDATIONS}|lanes|topics|history|inbox)/)`, pathNot: '^src/outbox/fan-out/' },
    },
    {
      name: 'history-imports-only-foundations',
      severity: 'error',
      comment: 'Inbox and upkeep read and write it; of listeners it knows how a pattern matches a type.',
      from: { path: '^src/history/', pathNot: SPEC },
      to: { path: `^src/(?!(${FOUNDATIONS}|history)/)`, pathNot: '^src/listeners/type-patterns\\.ts$' },
    },
    {
      name: 'webhooks-import-only-foundations',
      severity: 'error',
      comment: 'Listeners send pings and the outbox deliveries with it, so it knows neither.',
      from: { path: '^src/webhooks/', pathNot: SPEC },
      to: { path: `^src/(?!(${FOUNDATIONS}|webhooks)/)`, pathNot: VERSION },
    },
    {
      name: 'brokers-import-only-webhooks',
      severity: 'error',
      comment: 'Another way to send: behind the same egress guard, with the same results.',
      from: { path: '^src/brokers/', pathNot: SPEC },
      to: { path: `^src/(?!(${FOUNDATIONS}|webhooks|brokers)/)` },
    },
    {
      name: 'nats-client-only-in-its-folder',
      severity: 'error',
      comment: 'It is optional: what imports it is loaded when the first listener needs it.',
      from: { path: '^(src|migrations)/', pathNot: ['^src/brokers/nats/', SPEC] },
      to: { path: 'node_modules/@nats-io/' },
    },
    {
      name: 'rabbitmq-client-only-in-its-folder',
      severity: 'error',
      from: { path: '^(src|migrations)/', pathNot: ['^src/brokers/rabbitmq/', SPEC] },
      to: { path: 'node_modules/rabbitmq-client/' },
    },
    {
      name: 'kafka-client-only-in-its-folder',
      severity: 'error',
      from: { path: '^(src|migrations)/', pathNot: ['^src/brokers/kafka/', SPEC] },
      to: { path: 'node_modules/@platformatic/' },
    },
    {
      name: 'broker-clients-are-loaded-on-demand',
      severity: 'error',
      comment: 'A service without such listeners starts without these packages.',
      from: { path: '^(src|migrations)/', pathNot: ['^src/brokers/(nats|rabbitmq|kafka)/', SPEC] },
      to: {
        path: '^src/brokers/(nats|rabbitmq|kafka)/',
        dependencyTypesNot: ['type-only', 'dynamic-import'],
      },
    },
    {
      name: 'outbox-imports-no-later-stage',
      severity: 'error',
      comment: 'Work flows from the inbox to the outbox, imports the other way round.',
      from: { path: '^src/(outbox|listeners|topics|groups|definitions)/' },
      to: { path: ['^src/(inbox|sources|read-models|upkeep)/', TOP], pathNot: VERSION },
    },
    {
      name: 'read-models-never-see-the-engine',
      severity: 'error',
      comment:
        'A read model imports what the package exports (contract, and testing in its spec) and its own folder.',
      from: { path: '^src/read-models/([^/]+)/' },
      to: {
        path: '^(src|migrations)/',
        pathNot: ['^src/(contract|testing)/index\\.ts$', '^src/read-models/$1/'],
      },
    },
    {
      name: 'test-kit-only-in-specs',
      severity: 'error',
      comment: 'The test kit starts databases and is no part of the service.',
      from: { path: '^(src|migrations)/', pathNot: ['^src/testing/', SPEC] },
      to: { path: '^src/testing/' },
    },
    {
      name: 'engine-never-sees-a-read-model',
      severity: 'error',
      comment:
        'A read model can be deleted: only the list of read models names it, only the top names the list.',
      from: { path: '^(src|migrations)/', pathNot: [TOP, '^src/read-models/'] },
      to: { path: '^src/read-models/' },
    },
    {
      name: 'top-sees-only-the-list-of-read-models',
      severity: 'error',
      from: { path: TOP },
      to: { path: '^src/read-models/[^/]+/' },
    },
    {
      name: 'cli-imports-no-engine',
      severity: 'error',
      comment:
        'It speaks the HTTP API; only its doctor looks at the settings, the database and the schema, and only serve starts the service.',
      from: { path: '^src/cli/' },
      to: {
        path: '^src/(?!cli/)',
        pathNot: [
          '^src/(config|database)/',
          '^src/(schema|index|start-replica|load-read-models)\\.ts$',
          VERSION,
        ],
      },
    },
    {
      name: 'only-the-cli-imports-the-cli',
      severity: 'error',
      from: { path: '^(src|migrations)/', pathNot: '^src/cli/' },
      to: { path: '^src/cli/' },
    },
    {
      name: 'client-imports-nothing-else',
      severity: 'error',
      comment: 'It is published without the service and without dependencies.',
      from: { path: '^packages/client/src/', pathNot: SPEC },
      to: { pathNot: '^packages/client/src/', dependencyTypesNot: ['core'] },
    },
    {
      name: 'only-the-cli-uses-the-client',
      severity: 'error',
      comment: 'The service does not call itself over HTTP.',
      from: { path: '^(src|migrations)/', pathNot: '^src/cli/' },
      to: { path: '^packages/client/' },
    },
    {
      name: 'console-imports-nothing-else',
      severity: 'error',
      comment: 'It runs in a browser and speaks the HTTP API; Preact and signals are all it is made of.',
      from: { path: '^console/' },
      to: { pathNot: ['^console/', '^docs/operating\\.md$', 'node_modules/(preact|@preact)/'] },
    },
    {
      name: 'only-the-console-imports-the-console',
      severity: 'error',
      comment: 'The service serves its built files; only its tests know a module of it.',
      from: { pathNot: ['^console/', '^test/console/'] },
      to: { path: '^console/' },
    },
    {
      name: 'sql-only-from-its-folder',
      severity: 'error',
      comment: 'Statements stand beside the store that runs them.',
      from: { path: '^(.*)/[^/]+$' },
      to: { path: '\\.sql\\.ts$', pathNot: '^$1/[^/]+\\.sql\\.ts$' },
    },
    {
      name: 'sql-only-from-its-store',
      severity: 'error',
      comment: 'And that store alone: two that run the same statement would each rely on half of its rules.',
      from: { pathNot: SPEC },
      module: { path: '\\.sql\\.ts$', numberOfDependentsMoreThan: 1 },
    },
    {
      name: 'undici-only-in-the-sender',
      severity: 'error',
      comment: 'What leaves the service passes the egress guard and the deadline of the sender.',
      from: { path: '^(src|migrations)/', pathNot: ['^src/webhooks/', SPEC] },
      to: { path: 'node_modules/undici/' },
    },
    {
      name: 'migrations-are-frozen',
      severity: 'error',
      comment: 'A migration that imports code of the service changes its meaning when that code does.',
      from: { path: ['^migrations/', '^src/read-models/.*/migrations?/'] },
      to: { path: ['^src/', '^test/', '^chaos/', '^migrations/'] },
    },
    {
      name: 'no-cycles',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'no-dev-dependency-in-the-service',
      severity: 'error',
      comment: 'The image has no dev dependencies.',
      from: { path: '^(src|migrations)/', pathNot: SPEC },
      // Optional peer dependencies are dev dependencies, too: the tests need them.
      to: { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['type-only', 'npm-peer'] },
    },
    {
      name: 'no-tests-in-the-service',
      severity: 'error',
      from: { path: '^(src|migrations)/', pathNot: SPEC },
      to: { path: ['^test/', '^chaos/', SPEC] },
    },
    {
      name: 'no-unresolvable-import',
      severity: 'error',
      comment: 'What is imported exists.',
      from: {},
      to: { couldNotResolve: true },
    },
    {
      name: 'no-undeclared-package',
      severity: 'error',
      from: {},
      to: { dependencyTypes: ['npm-no-pkg', 'npm-unknown'] },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    combinedDependencies: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
      extensions: ['.ts', '.tsx', '.mjs', '.js', '.cjs', '.json'],
    },
  },
};
