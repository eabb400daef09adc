// `npm run migrate`: brings the schema of DATABASE_URL up to date.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, checkNode, install, root } from './ready.mjs';

checkNode();
install();
build();
await import(pathToFileURL(join(root, 'dist/src/migrate.js')));
