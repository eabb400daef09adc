/**
 * No cycles between the folders of src, specs left out: they import test/, which imports everything. The rooms of one
 * feature (src/outbox/claim, src/outbox/send …) may know each other.
 */
const { options } = require('./.dependency-cruiser.cjs');

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    {
      name: 'no-cycles-between-folders',
      severity: 'error',
      scope: 'folder',
      from: { path: '^src/[^/]+$' },
      to: { circular: true },
    },
  ],
  options: { ...options, exclude: { path: '\\.spec\\.ts$' } },
};
