import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { it } from '@jest/globals';
import { ADMIN_KEY } from './app.ts';
import { ROOT } from './built-service.ts';

export interface Ended {
  readonly code: number;
  readonly out: string;
  readonly aside: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads arbitrary output
  readonly json: any;
}

/** `script`, if installed, runs a command on its own terminal. */
const SCRIPT = '/usr/bin/script';
export const onTerminal = process.platform === 'linux' && existsSync(SCRIPT) ? it : it.skip;

/** Runs the built command line against a service, as its admin. */
export function sluiceCli(url: () => string) {
  function start(
    given: readonly string[],
    environment: Record<string, string> = {},
    from: 'terminal' | { input: string } = { input: '' },
  ) {
    const command = [process.execPath, 'dist/src/cli/main.js', ...given];
    const [program, ...rest] =
      from === 'terminal'
        ? [SCRIPT, '-qec', `exec ${command.map((part) => `'${part}'`).join(' ')}`, '/dev/null']
        : command;
    const child = spawn(program!, rest, {
      cwd: ROOT,
      env: { PATH: process.env.PATH, SLUICE_URL: url(), SLUICE_API_KEY: ADMIN_KEY, ...environment },
    });
    if (from !== 'terminal') child.stdin.end(from.input);
    let out = '';
    let aside = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      out += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      aside += text;
    });
    const lines = createInterface({ input: child.stdout });
    const firstLine = once(lines, 'line').then(([line]) => line as string);
    const ended = once(child, 'close').then(([code]): Ended => ({ code, out, aside, json: parsed(out) }));
    return { child, ended, output: () => out, aside: () => aside, line: () => firstLine };
  }

  function sluice(
    given: readonly string[],
    environment?: Record<string, string>,
    input = '',
  ): Promise<Ended> {
    return start(given, environment, { input }).ended;
  }

  return { start, sluice };
}

export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
