#!/usr/bin/env node
// `npx sluice …`: runs the command line. In a checkout, where the sources are, it installs and builds first if necessary;
// the package has neither ready.mjs nor sources, and comes built.
import { existsSync } from 'node:fs';
import { checkNode } from './check-node.mjs';

checkNode();
const ready = new URL('ready.mjs', import.meta.url);
if (existsSync(ready)) await prepare();
await import(new URL('../dist/src/cli/main.js', import.meta.url));

async function prepare() {
  const { build, install } = await import(ready);
  const log = (line) => console.error(line);
  if (!existsSync(new URL('../node_modules', import.meta.url))) install(log);
  build(log);
}
