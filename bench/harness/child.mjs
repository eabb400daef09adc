// A process of its own for one verb of one module: node child.mjs <module> <verb> <json>
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { BENCH } from './places.mjs';

const [module, verb, options] = process.argv.slice(2);
process.once('disconnect', () => process.exit(1)); // the runner is gone
const { [verb]: run } = await import(pathToFileURL(join(BENCH, module)));
const done = await run(JSON.parse(options));
process.send({ done: done ?? null }, () => process.exit(0));
