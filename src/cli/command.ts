import { parseArgs } from 'node:util';
import type { Api } from './api.ts';
import { usageFault } from './faults.ts';
import type { Output } from './output.ts';

export interface Option {
  readonly type: 'string' | 'boolean';
  readonly multiple?: true;
  /** How a value is called in the help. */
  readonly value?: string;
  readonly about: string;
}

export interface Arguments {
  readonly positionals: readonly string[];
  text(name: string): string | undefined;
  texts(name: string): readonly string[];
  flag(name: string): boolean;
}

export interface Context {
  readonly api: Api;
  readonly output: Output;
  /** As the process got it; only for what must be checked in it. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Set when the command is to end, by Ctrl-C. */
  readonly stopping: AbortSignal;
}

export interface Command {
  readonly name: string;
  readonly summary: string;
  /** What follows the name, one line for each way to call it. */
  readonly usages: readonly string[];
  readonly options: Readonly<Record<string, Option>>;
  /** Answers with the exit code. */
  run(args: Arguments, context: Context): Promise<number>;
}

/** Of every command. */
export const COMMON: Readonly<Record<string, Option>> = {
  json: { type: 'boolean', about: 'Print JSON, for scripts.' },
  help: { type: 'boolean', about: 'Show this.' },
};

export function readArguments(command: Command, given: readonly string[]): Arguments {
  const options = { ...command.options, ...COMMON };
  const config = Object.fromEntries(
    Object.entries(options).map(([name, { type, multiple = false }]) => [name, { type, multiple }]),
  );
  try {
    const { values, positionals } = parseArgs({ args: [...given], options: config, allowPositionals: true });
    return {
      positionals,
      text: (name) => values[name] as string | undefined,
      texts: (name) => (values[name] ?? []) as string[],
      flag: (name) => values[name] === true,
    };
  } catch (error) {
    const [sentence] = (error as Error).message.split('. ');
    throw usageFault(`${sentence}; see "sluice ${command.name} --help"`);
  }
}

export function helpOf({ name, summary, usages, options }: Command): string {
  const lines = Object.entries({ ...options, ...COMMON }).map(
    ([option, { type, value, multiple, about }]) => {
      const left = `--${option}${type === 'string' ? ` <${value ?? 'text'}>` : ''}`;
      return `  ${left.padEnd(26)} ${about}${multiple ? ' May be given several times.' : ''}`;
    },
  );
  return [
    summary,
    '',
    ...usages.map((usage, index) => `${index === 0 ? 'Usage:' : '      '} sluice ${name} ${usage}`.trimEnd()),
    '',
    ...lines,
    '',
  ].join('\n');
}

/** One of the names a command has for what it can do. */
export function actionOf<Action extends string>(
  args: Arguments,
  command: string,
  actions: readonly Action[],
): Action {
  const action = actions.find((one) => one === args.positionals[0]);
  if (action) return action;
  throw usageFault(`say what to do: sluice ${command} ${actions.join('|')}`);
}
