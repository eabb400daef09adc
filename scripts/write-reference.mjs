// `npm run docs:reference`: writes the generated parts of docs/reference from the commands and from the metrics of a replica.
// The spec that compares them starts that replica, so it also writes them.
import { spawnSync } from 'node:child_process';
import { checkNode, install, root } from './ready.mjs';

checkNode();
install();
const { status } = spawnSync('npm', ['run', '-s', 'jest', '--', 'test/docs/reference.spec.ts'], {
  cwd: root,
  env: { ...process.env, WRITE_REFERENCE: '1' },
  shell: process.platform === 'win32',
  stdio: 'inherit',
});
process.exitCode = status ?? 1;
