#!/usr/bin/env node
// `npx sluice …`: the command line, installed and built first where that was not done yet.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, checkNode, install, root } from './ready.mjs';

checkNode();
const tell = (line) => console.error(line);
if (!existsSync(join(root, 'node_modules'))) install(tell);
build(tell);
await import(pathToFileURL(join(root, 'dist/src/cli/main.js')));
