// `npm test`: runs all checks and tests, also in a fresh clone. Arguments are passed to jest.
import { checkNode, install, run } from './ready.mjs';

checkNode();
install();
install(console.log, 'test/client/nodes');
for (const step of ['lock', 'lint', 'types', 'boundaries', 'unused', 'build']) {
  console.log(`\n— ${step}`);
  run('npm', ['run', '--silent', step]);
}
console.log('\n— tests');
run('npm', ['run', '--silent', 'jest', '--', ...process.argv.slice(2)]);
