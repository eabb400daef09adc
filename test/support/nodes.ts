import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './built-service.ts';

/** The version that runs the tests is one of those that are supported. */
export const OTHER_NODES = [22, 24];
/** They have a lock file of their own, and `npm test` installs them: nothing is downloaded by a test. */
export const NODES = 'test/client/nodes';

/** The program of another version of Node, if it is here. */
export function nodeOf(version: number): string | undefined {
  const platform = `${process.platform}-${process.arch}`;
  const installed = join(ROOT, NODES, `node_modules/node${version}-${platform}/bin/node`);
  const paths = [process.env[`NODE_${version}`], installed];
  return paths.find((path) => path !== undefined && existsSync(path));
}
