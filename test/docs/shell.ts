import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from '../support/built-service.ts';
import { until } from '../support/until.ts';
import { isIn, type Step } from './markdown.ts';

/** What the commands of documents need. */
export const hasTools = ['bash', 'curl', 'npx'].every(
  (tool) => spawnSync(tool, ['--version'], { stdio: 'ignore' }).status === 0,
);

export interface Shell {
  /** Runs the commands of a step and waits until everything it expects is in the output; fails with the output. */
  run(step: Step): Promise<void>;
  /** Ends the shell and the jobs it has in the background. */
  close(): Promise<void>;
}

/**
 * One bash for all steps of a document, in the project's folder, so that variables and jobs last from step to step. What a
 * job in the background prints counts as output of the step during which it arrives.
 * `replace`: texts of the document, such as a port, and what replaces them here.
 */
export function openShell(
  environment: Record<string, string>,
  replace: Readonly<Record<string, string>> = {},
  timeoutMs = 60_000,
): Shell {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-docs-'));
  const { child, ended, output } = startBash(environment);
  let count = 0;
  return {
    async run({ line, commands, expected }) {
      count += 1;
      const from = output().length;
      const file = join(folder, `step-${count}.sh`);
      const marker = `step ${count} done`;
      writeFileSync(file, `set -e\n${replaced(commands, replace)}\nset +e\n`);
      child.stdin.write(`source ${file} </dev/null; echo; echo "${marker}"\n`);
      const wanted = [marker, ...expected.map((text) => replaced(text, replace))];
      const missing = () => wanted.filter((text) => !isIn(output().slice(from), text));
      await until(() => child.exitCode !== null || missing().length === 0, timeoutMs).catch(() => undefined);
      if (missing().length === 0) return;
      const printed = output().slice(from);
      throw new Error(
        `the commands at line ${line} did not print ${JSON.stringify(missing())}, but:\n${printed}`,
      );
    },
    async close() {
      if (child.exitCode === null) child.stdin.end('for job in $(jobs -p); do kill -- "-$job"; done; exit\n');
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}

function startBash(environment: Record<string, string>) {
  const { PATH, HOME } = process.env;
  const child = spawn('bash', ['--noprofile', '--norc'], {
    cwd: ROOT,
    env: { PATH, HOME, npm_config_update_notifier: 'false', ...environment },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  // Jobs of their own process group: `kill %1` reaches what npx has started, as it does in a terminal.
  child.stdin.write('set -m\n');
  return { child, ended: once(child, 'close'), output: () => output };
}

function replaced(text: string, replace: Readonly<Record<string, string>>): string {
  return Object.entries(replace).reduce((whole, [from, to]) => whole.replaceAll(from, to), text);
}
