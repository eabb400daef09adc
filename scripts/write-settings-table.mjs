// `npm run docs:settings`: writes the table of settings into the README, from the schema that reads them.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, checkNode, install, root } from './ready.mjs';

checkNode();
install();
build();
const { settingsTable } = await import(pathToFileURL(join(root, 'dist/src/config/settings-table.js')));
const path = join(root, 'README.md');
const before = readFileSync(path, 'utf8');
const after = before.replace(/(?<=<!-- settings -->\n)[\s\S]*?(?=\n<!-- \/settings -->)/, () =>
  settingsTable(),
);
if (after !== before) writeFileSync(path, after);
console.log(after === before ? 'the table of settings is up to date' : 'the table of settings was updated');
