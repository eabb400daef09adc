// `npm start`: from a fresh clone to a running service.

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, checkNode, install, root } from './ready.mjs';

checkNode();
install();
build();
process.chdir(root);
await import(pathToFileURL(join(root, 'dist/src/main.js')));
