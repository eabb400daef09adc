// A lock file written on one platform can lack packages of another one; `npm ci` then fails there.
import { readFileSync } from 'node:fs';

for (const folder of ['', 'bench/', 'test/client/nodes/']) check(`${folder}package-lock.json`);

function check(file) {
  const { packages } = JSON.parse(readFileSync(new URL(`../${file}`, import.meta.url), 'utf8'));
  const missing = Object.entries(packages).flatMap(([from, entry]) =>
    Object.keys(entry.optionalDependencies ?? {})
      .filter((name) => !found(packages, from, name))
      .map((name) => `${name} (wanted by ${from || 'the project'})`),
  );
  for (const line of missing) console.error(`${file} lacks ${line}`);
  if (missing.length) process.exit(1);
  console.log(`${file} is complete: ${Object.keys(packages).length} packages`);
}

/** Looks for a package as Node does: in the folder's own node_modules, then in each parent's. */
function found(packages, from, name) {
  const at = `${from ? `${from}/` : ''}node_modules/${name}`;
  if (packages[at]) return true;
  if (from === '') return false;
  return found(
    packages,
    from.includes('/node_modules/') ? from.slice(0, from.lastIndexOf('/node_modules/')) : '',
    name,
  );
}
