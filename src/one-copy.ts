import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ReadModelsError } from './read-models-error.ts';
import { PACKAGE, PACKAGE_FOLDER } from './version.ts';

/**
 * A read model and the service must use the same copy of the packages that they share. With two copies of typeorm the start
 * fails with a misleading error; with two of class-transformer, class-validator or sluice itself, decorators are silently
 * ignored. `from`: the folder that the read models import from.
 */
export function checkOneCopy(from: string, own: string = PACKAGE_FOLDER): void {
  // Yarn's Plug'n'Play has no node_modules to search.
  if (process.versions.pnp) return;
  const { peerDependencies, peerDependenciesMeta } = PACKAGE;
  const shared = Object.entries(peerDependencies).filter(([name]) => !peerDependenciesMeta[name]?.optional);
  const faults = shared.flatMap(([name, range]) => {
    const ours = copyOf(name, own);
    if (!ours) return [`${name} is not installed: npm install "${name}@${range}"`];
    return twoCopies(name, ours, copyOf(name, from));
  });
  faults.push(...twoCopies('sluice', realpathSync(own), copyOf('sluice', from)));
  if (faults.length) throw new ReadModelsError(faults.join('\n'));
}

function twoCopies(name: string, ours: string, theirs: string | undefined): string[] {
  if (theirs === undefined || theirs === ours) return [];
  return [
    `${name} is installed twice: ${shown(ours)}, which sluice uses, and ${shown(theirs)}, which the read models use; ` +
      'both need the same copy: give package.json one range for it, or run "npm dedupe"',
  ];
}

/** The folder of a package as Node finds it: in node_modules of the folder, then of each parent. Links are followed. */
function copyOf(name: string, from: string): string | undefined {
  const folder = join(from, 'node_modules', name);
  if (existsSync(join(folder, 'package.json'))) return realpathSync(folder);
  const parent = dirname(from);
  return parent === from ? undefined : copyOf(name, parent);
}

function shown(folder: string): string {
  return `${folder} (${JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).version})`;
}
