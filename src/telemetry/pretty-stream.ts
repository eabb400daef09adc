import type { DestinationStream } from 'pino';

const COLOURS: Record<string, number> = { fatal: 31, error: 31, warn: 33, info: 32, debug: 36, trace: 90 };
const SHOWN_APART = new Set(['level', 'time', 'service', 'pid', 'event', 'msg', 'error']);

/** Log lines for a terminal: `12:00:00.123 info  inbox.dead  message  key=value`. */
export function prettyStream(target: { write(text: string): unknown }): DestinationStream {
  return { write: (line) => void target.write(prettyLine(JSON.parse(line))) };
}

function prettyLine(line: Record<string, unknown>): string {
  const level = String(line.level);
  const time = String(line.time).slice(11, 23);
  const rest = Object.entries(line)
    .filter(([name]) => !SHOWN_APART.has(name))
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
  const words = [line.event, line.msg, ...rest].filter(Boolean).join('  ');
  const stack = (line.error as { stack?: string } | undefined)?.stack;
  return `\u001b[90m${time}\u001b[0m \u001b[${COLOURS[level] ?? 0}m${level.padEnd(5)}\u001b[0m ${words}\n${stack ? `${stack}\n` : ''}`;
}
