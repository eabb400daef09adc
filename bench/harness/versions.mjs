import { spawnSync } from 'node:child_process';
import { nodeFor } from './process.mjs';

/** The service runs on the Node at hand, peers on the newer one they require. */
export function nodeVersions() {
  const newer = spawnSync(nodeFor('newer'), ['--version'], { encoding: 'utf8' }).stdout.trim();
  return { node: process.version, nodeOfPeers: newer };
}
