import { parseArgs } from 'node:util';
import type { Api } from './api.ts';
import { usageError } from './cli-error.ts';
import type { Output } from './output.ts';

export interface Option {
  readonly type: 'string' | 'boolean';
  readonly multiple?: true;
  /** The placeholder for the value in the help. */
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
  /** The environment of the process, for commands that check it. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Aborted by Ctrl-C. */
  readonly stopping: AbortSignal;
}

export interface Command {
  readonly name: string;
  readonly summary: string;
  /** What follows the name, one line for each form of the command. */
  readonly usages: readonly string[];
  readonly options: Readonly<Record<string, Option>>;
  /** Returns the exit code. */
  run(args: Arguments, context: Context): Promise<number>;
}

/** Options of every command. */
export const COMMON: Readonly<Record<string, Option>> = {
  json: { type: 'boolean', about: 'Print JSON, for scripts.' },
  help: { type: 'boolean', about: 'Show this help.' },
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
    throw usageError(`${sentence}; see "sluice ${command.name} --help"`);
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

/** The first argument, which must be one of the command's actions. */
export function actionOf<Action extends string>(
  args: Arguments,
  command: string,
  actions: readonly Action[],
): Action {
  const action = actions.find((one) => one === args.positionals[0]);
  if (action) return action;
  throw usageError(`missing action: sluice ${command} ${actions.join('|')}`);
}
