import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { CliError, EXIT, usageError } from '../cli-error.ts';
import type { Arguments, Command, Context } from '../command.ts';
import { groupPath } from '../groups.ts';
import { table } from '../output.ts';

interface Sought {
  /** How many messages the group gets again, and how many it never gets. */
  readonly again: number;
  readonly skipped: number;
  readonly partitions: readonly {
    readonly topic: string;
    readonly partition: number;
    readonly from: number;
    readonly to: number;
  }[];
}

type Input = Readable & { isTTY?: boolean };

export function seekFrom(stdin: Input): Command {
  return {
    name: 'seek',
    summary: 'Move the offsets of a consumer group, to read messages again or to skip them.',
    usages: [
      '<group> --to earliest|latest|<time>|<offset> [--topic <topic>] [--partition <number>] [--dry-run]',
    ],
    options: {
      to: {
        type: 'string',
        value: 'where',
        about: 'earliest, latest, a time (RFC 3339), or the offset to read next.',
      },
      topic: { type: 'string', value: 'topic', about: 'Only this topic of the group.' },
      partition: { type: 'string', value: 'number', about: 'Only this partition.' },
      'dry-run': { type: 'boolean', about: 'Only show what would change.' },
      yes: { type: 'boolean', about: 'Do not ask. Required if standard input is not a terminal.' },
    },
    run: (args, context) => seek(args, context, stdin),
  };
}

async function seek(args: Arguments, context: Context, stdin: Input): Promise<number> {
  const [group, ...more] = args.positionals;
  if (group === undefined || more.length > 0 || args.text('to') === undefined)
    throw usageError('give a group and where to: sluice seek <group> --to earliest|latest|<time>|<offset>');
  const body = bodyOf(args);
  const isDryRun = args.flag('dry-run');
  if (!isDryRun && !args.flag('yes') && !stdin.isTTY)
    throw usageError(
      '--yes is required if standard input is not a terminal; --dry-run shows what would change',
    );
  const request = async (dryRun: boolean): Promise<Sought> => {
    const path = `${groupPath(group)}/seek`;
    return (await context.api.call('POST', path, { body: { ...body, dryRun } })).body;
  };
  if (!isDryRun && !args.flag('yes')) await confirm(group, await request(true), stdin, context);
  const sought = await request(isDryRun);
  context.output.result(sought, (limit) => render(sought, limit).concat(`${summaryOf(sought, isDryRun)}\n`));
  return EXIT.ok;
}

function bodyOf(args: Arguments): Record<string, unknown> {
  const [topic, partition] = [args.text('topic'), args.text('partition')];
  if (partition !== undefined && !/^\d{1,3}$/.test(partition))
    throw usageError('--partition must be a whole number');
  return {
    to: targetOf(args.text('to')!),
    ...(topic === undefined ? {} : { topic }),
    ...(partition === undefined ? {} : { partition: Number(partition) }),
  };
}

function targetOf(text: string): unknown {
  if (text === 'earliest' || text === 'latest') return text;
  return /^\d{1,15}$/.test(text) ? { offset: Number(text) } : { time: text };
}

/** Throws unless the person at the terminal agrees. */
async function confirm(
  group: string,
  plan: Sought,
  stdin: Readable,
  { output, stopping }: Context,
): Promise<void> {
  const shown = `${render(plan, Number.POSITIVE_INFINITY)}${summaryOf(plan, true)}\n`;
  output.ask(`${shown}Move the offsets of ${group}? [y/N] `);
  const lines = createInterface({ input: stdin });
  try {
    const [line] = await Promise.race([
      once(lines, 'line', { signal: stopping }),
      once(lines, 'close').then(() => ['']),
    ]);
    if (/^y(es)?$/i.test(String(line).trim())) return;
  } catch (error) {
    if (!stopping.aborted) throw error;
  } finally {
    lines.close();
  }
  throw new CliError('nothing was changed', EXIT.failed);
}

function render({ partitions }: Sought, cellLimit: number): string {
  return table(
    partitions,
    [
      { title: 'PARTITION', of: ({ topic, partition }) => `${topic}/${partition}` },
      { title: 'FROM', of: ({ from }) => from, right: true },
      { title: 'TO', of: ({ to }) => to, right: true },
    ],
    cellLimit,
  );
}

function summaryOf({ again, skipped }: Sought, isDryRun: boolean): string {
  const verb = isDryRun ? 'would be' : 'are';
  return `${again} messages ${verb} read again, ${skipped} skipped`;
}
