import { usageError } from './cli-error.ts';
import type { Arguments, Context } from './command.ts';
import { printable } from './output.ts';
import { memberText } from './raw-json.ts';

/** What messages of topics and of queues have in common. */
interface Message {
  readonly id: string;
  readonly type: string;
  readonly key: string;
  readonly timestamp: string;
  readonly attempt?: number;
}

/** Writes a message as one line. `text`: its JSON as the service sent it; `place`: where it is, added to that JSON. */
export function printMessage(
  text: string,
  place: Readonly<Record<string, unknown>>,
  output: Context['output'],
): void {
  const { id, type, key, timestamp, attempt = 1 } = JSON.parse(text) as Message;
  const head = JSON.stringify(place).slice(0, -1);
  const json = head === '{' ? text : `${head},${text.slice(1)}`;
  output.resultText(json, (limit) =>
    [
      timestamp.slice(11, 23),
      ...Object.values(place).map((value) => printable(value, limit)),
      printable(type, limit),
      `key=${printable(key, limit)}`,
      `id=${printable(id, limit)}`,
      ...(attempt > 1 ? [`attempt=${attempt}`] : []),
      printable(memberText(text, 'payload'), limit),
    ]
      .join('  ')
      .concat('\n'),
  );
}

/** How many more messages a command prints before it ends. */
export class Remaining {
  constructor(private left: number) {}

  static of(args: Arguments): Remaining {
    const text = args.text('count');
    if (text === undefined) return new Remaining(Number.POSITIVE_INFINITY);
    if (!/^[1-9]\d{0,8}$/.test(text)) throw usageError('--count must be a whole number above 0');
    return new Remaining(Number(text));
  }

  get isOver(): boolean {
    return this.left === 0;
  }

  /** Max messages to fetch at a time. */
  upTo(max: number): number {
    return Math.min(max, this.left);
  }

  take(): void {
    this.left -= 1;
  }
}
