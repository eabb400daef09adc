import type { Readable } from 'node:stream';
import { VERSION } from '../version.ts';
import { Api } from './api.ts';
import { CliError, EXIT, usageError } from './cli-error.ts';
import { type Command, helpOf, readArguments } from './command.ts';
import { cells } from './commands/cells.ts';
import { consume } from './commands/consume.ts';
import { deadLetters } from './commands/dead-letters.ts';
import { doctor } from './commands/doctor.ts';
import { groups } from './commands/groups.ts';
import { historyFrom } from './commands/history.ts';
import { init } from './commands/init.ts';
import { listen } from './commands/listen.ts';
import { pull } from './commands/pull.ts';
import { rebuild } from './commands/rebuild.ts';
import { replay } from './commands/replay.ts';
import { schedules } from './commands/schedules.ts';
import { seekFrom } from './commands/seek.ts';
import { sendFrom } from './commands/send.ts';
import { migrate, serve } from './commands/serve.ts';
import { status } from './commands/status.ts';
import { topics } from './commands/topics.ts';
import { Output, type Terminal } from './output.ts';

export interface CliProcess {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly stopping: AbortSignal;
  readonly stdin: Readable;
  readonly terminal: Terminal;
}

const DEFAULT_URL = 'http://127.0.0.1:3000';

/** Runs `sluice <command> …`; returns the exit code. */
export async function runCli(given: readonly string[], process: CliProcess): Promise<number> {
  const output = new Output(process.terminal, given.includes('--json'));
  try {
    return await run(given, process, output);
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    output.error(error.message, error.problem);
    return error.exitCode;
  }
}

/** In the order of `sluice --help`. */
function commandsOf(stdin: Readable): Command[] {
  return [
    sendFrom(stdin),
    status,
    topics,
    groups,
    consume,
    seekFrom(stdin),
    pull,
    deadLetters,
    replay,
    rebuild,
    schedules,
    historyFrom(stdin),
    cells,
    listen,
    doctor,
    init,
    serve,
    migrate,
  ];
}

async function run(
  [name, ...rest]: readonly string[],
  { environment, stopping, stdin, terminal }: CliProcess,
  output: Output,
): Promise<number> {
  const commands = commandsOf(stdin);
  if (name === undefined || name === '--help' || name === 'help') {
    terminal.write(overview(commands));
    return name === undefined ? EXIT.usage : EXIT.ok;
  }
  if (name === '--version') {
    terminal.write(`${VERSION}\n`);
    return EXIT.ok;
  }
  const command = commands.find((one) => one.name === name);
  if (!command) throw usageError(`there is no command "${name}"; see "sluice --help"`);
  const args = readArguments(command, rest);
  if (args.flag('help')) {
    terminal.write(helpOf(command));
    return EXIT.ok;
  }
  const api = new Api(urlOf(environment.SLUICE_URL), environment.SLUICE_API_KEY);
  return command.run(args, { api, output, environment, stopping });
}

function urlOf(text = DEFAULT_URL): string {
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text;
  throw usageError('SLUICE_URL must be a URL such as https://sluice.example.com');
}

function overview(commands: readonly Command[]): string {
  return [
    'The command line of Sluice.',
    '',
    'Usage: sluice <command> …',
    '',
    ...commands.map(({ name, summary }) => `  ${name.padEnd(14)} ${summary}`),
    '',
    'sluice <command> --help shows the options of a command.',
    'SLUICE_URL is the URL of the service (default http://127.0.0.1:3000), SLUICE_API_KEY the API key.',
    'Exit codes: 0 success, 1 failed, 2 invalid command line, 3 service unreachable.',
    '',
  ].join('\n');
}
