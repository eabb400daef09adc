// Runs one verb of one module in its own process: node child.mjs <module> <verb> <json>
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { BENCH } from './paths.mjs';

const [module, verb, options] = process.argv.slice(2);
// The runner is gone, or gives up: what this process has started ends with it.
for (const event of ['disconnect', 'SIGTERM']) process.once(event, () => process.exit(1));
const { [verb]: run } = await import(pathToFileURL(join(BENCH, module)));
const done = await run(JSON.parse(options));
process.send({ done: done ?? null }, () => process.exit(0));
