// `npm test`: runs all checks and tests, also in a fresh clone. Arguments are passed to jest.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { checkNode, install, root, run } from './ready.mjs';

/** More failed files than this are no accident of a busy machine. */
const MAX_REPEATED = 5;
/** The tests of the console leave a picture of every screen here, so that somebody looks at them. */
const SCREENSHOTS = join(root, 'test-results/screenshots');

checkNode();
install();
install(console.log, 'test/client/nodes');
for (const step of ['lock', 'lint', 'types', 'boundaries', 'unused', 'build']) {
  console.log(`\n— ${step}`);
  run('npm', ['run', '--silent', step]);
}
console.log('\n— tests');
const folder = mkdtempSync(join(tmpdir(), 'sluice-test-results-'));
try {
  process.exitCode = test(process.argv.slice(2));
} finally {
  rmSync(folder, { recursive: true });
}

/** In CI, files that fail while others run beside them are run once more, alone; what passes only then is reported. */
function test(args) {
  const results = join(folder, 'results.json');
  const { status } = jest([...args, '--json', `--outputFile=${results}`]);
  if (status === 0 || !process.env.CI) return status ?? 1;
  const failed = failedFiles(results);
  if (failed.length === 0 || failed.length > MAX_REPEATED) return status ?? 1;
  console.log(`\n— ${failed.length} of the files failed; each once more, alone:\n  ${failed.join('\n  ')}`);
  const again = jest(['--runInBand', '--runTestsByPath', ...failed]).status ?? 1;
  if (again === 0)
    console.log(`\nUNSTABLE: failed beside other files, passed alone:\n  ${failed.join('\n  ')}`);
  return again;
}

function jest(args) {
  const npm = ['run', '--silent', 'jest', '--', ...args];
  const env = { SCREENSHOTS_DIR: SCREENSHOTS, ...process.env };
  const result = spawnSync('npm', npm, {
    cwd: root,
    env,
    stdio: 'inherit',
    shell: process.platform === 'win32',
  });
  if (result.error) throw result.error;
  return result;
}

function failedFiles(results) {
  try {
    const { testResults } = JSON.parse(readFileSync(results, 'utf8'));
    return testResults.filter(({ status }) => status === 'failed').map(({ name }) => relative(root, name));
  } catch {
    return [];
  }
}
