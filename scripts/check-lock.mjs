// A lock file written on one platform can lack packages of another one; `npm ci` then fails there.
import { readFileSync } from 'node:fs';

const { packages } = JSON.parse(readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8'));
const missing = Object.entries(packages).flatMap(([from, entry]) =>
  Object.keys(entry.optionalDependencies ?? {})
    .filter((name) => !found(from, name))
    .map((name) => `${name} (wanted by ${from || 'the project'})`),
);
for (const line of missing) console.error(`package-lock.json lacks ${line}`);
if (missing.length) process.exit(1);
console.log(`package-lock.json is complete: ${Object.keys(packages).length} packages`);

/** Looks for a package as Node does: in the folder's own node_modules, then in each parent's. */
function found(from, name) {
  const at = `${from ? `${from}/` : ''}node_modules/${name}`;
  if (packages[at]) return true;
  if (from === '') return false;
  return found(
    from.includes('/node_modules/') ? from.slice(0, from.lastIndexOf('/node_modules/')) : '',
    name,
  );
}
