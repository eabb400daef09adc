// `npm run chaos [-- --seed n --minutes m --faults a,b --planted all --json file]`: see docs/faults.md.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, checkNode, install, root } from '../scripts/ready.mjs';

checkNode();
install();
build();
const { compile } = await import('./compile.mjs');
const folders = [];
const compileOnce = (dist) => {
  const folder = compile(dist);
  folders.push(folder);
  return folder;
};
process.once('exit', () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});
const folder = compileOnce();
const { main } = await import(pathToFileURL(join(folder, 'chaos/main.js')));
process.exit(await main(process.argv.slice(2), { root, folder, compile: compileOnce }));
