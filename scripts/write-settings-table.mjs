// `npm run docs:settings`: writes the tables of docs/settings.md, from the schema that the service reads.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, checkNode, install, root } from './ready.mjs';

checkNode();
install();
build();
const { settingsTable } = await import(pathToFileURL(join(root, 'dist/src/config/settings-table.js')));
const path = join(root, 'docs/settings.md');
const before = readFileSync(path, 'utf8');
const after = before.replace(
  /(?<=<!-- settings -->\n)[\s\S]*?(?=<!-- \/settings -->)/,
  () => `\n${settingsTable()}\n\n`,
);
if (after !== before) writeFileSync(path, after);
console.log(after === before ? 'docs/settings.md is up to date' : 'docs/settings.md is written');
