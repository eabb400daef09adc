#!/usr/bin/env node
// `npx sluice …`: the command line, built first where that was not done yet.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, checkNode, root } from './ready.mjs';

checkNode();
build((line) => console.error(line));
await import(pathToFileURL(join(root, 'dist/src/cli/main.js')));
