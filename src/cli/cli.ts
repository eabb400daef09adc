import type { Readable } from 'node:stream';
import { VERSION } from '../version.ts';
import { Api } from './api.ts';
import { type Command, helpOf, readArguments } from './command.ts';
import { deadLetters } from './commands/dead-letters.ts';
import { doctor } from './commands/doctor.ts';
import { listen } from './commands/listen.ts';
import { replay } from './commands/replay.ts';
import { schedules } from './commands/schedules.ts';
import { sendFrom } from './commands/send.ts';
import { status } from './commands/status.ts';
import { EXIT, Fault, usageFault } from './faults.ts';
import { Output, type Terminal } from './output.ts';

export interface Surroundings {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly stopping: AbortSignal;
  readonly stdin: Readable;
  readonly terminal: Terminal;
}

const DEFAULT_URL = 'http://127.0.0.1:3000';

/** `sluice <command> …`: answers with the exit code. */
export async function runCli(given: readonly string[], surroundings: Surroundings): Promise<number> {
  const { environment, stopping, terminal } = surroundings;
  const commands = [sendFrom(surroundings.stdin), status, deadLetters, replay, schedules, listen, doctor];
  const output = new Output(terminal, given.includes('--json'));
  try {
    const [name, ...rest] = given;
    if (name === undefined || name === '--help' || name === 'help') {
      terminal.write(overview(commands));
      return name === undefined ? EXIT.usage : EXIT.ok;
    }
    if (name === '--version') {
      terminal.write(`${VERSION}\n`);
      return EXIT.ok;
    }
    const command = commands.find((one) => one.name === name);
    if (!command) throw usageFault(`there is no command "${name}"; see "sluice --help"`);
    const args = readArguments(command, rest);
    if (args.flag('help')) {
      terminal.write(helpOf(command));
      return EXIT.ok;
    }
    const api = new Api(urlOf(environment.SLUICE_URL), environment.SLUICE_API_KEY);
    return await command.run(args, { api, output, environment, stopping });
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    output.fault(error.message, error.problem);
    return error.exitCode;
  }
}

function urlOf(text = DEFAULT_URL): string {
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text;
  throw usageFault('SLUICE_URL must be such as https://sluice.example.com');
}

function overview(commands: readonly Command[]): string {
  return [
    'Sluice from the command line.',
    '',
    'Usage: sluice <command> …',
    '',
    ...commands.map(({ name, summary }) => `  ${name.padEnd(14)} ${summary}`),
    '',
    'sluice <command> --help shows the options of a command.',
    'SLUICE_URL (http://127.0.0.1:3000) says where the service is, SLUICE_API_KEY is the key it asks for.',
    'Exit codes: 0 done, 1 refused or not well, 2 not understood, 3 cannot be reached.',
    '',
  ].join('\n');
}
