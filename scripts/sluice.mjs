#!/usr/bin/env node
// `npx sluice …`: runs the command line; installs and builds first if necessary.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, checkNode, install, root } from './ready.mjs';

checkNode();
const log = (line) => console.error(line);
if (!existsSync(join(root, 'node_modules'))) install(log);
build(log);
await import(pathToFileURL(join(root, 'dist/src/cli/main.js')));
