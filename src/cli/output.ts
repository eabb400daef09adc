/** The streams a command writes to. */
export interface Terminal {
  write(text: string): void;
  /** Writes to standard error: errors and progress. */
  writeError(text: string): void;
  /** Whether standard output is a terminal. */
  readonly isTty: boolean;
  readonly isErrorTty: boolean;
}

const BAR_WIDTH = 30;
const CLEAR_LINE = '\r\x1b[2K';
const CLEAR_SCREEN = '\x1b[H\x1b[2J';

const MAX_CELL = 60;

/** Renders a result for people; longer cells of tables are cut. */
export type Render = (cellLimit: number) => string;

/** The output of a command: tables and lines for people, JSON for scripts. */
export class Output {
  constructor(
    private readonly terminal: Terminal,
    readonly json: boolean,
  ) {}

  /** Writes the result of the command. */
  result(value: unknown, shown: Render): void {
    this.terminal.write(this.json ? `${JSON.stringify(value)}\n` : shown(this.cellLimit()));
  }

  /** The same for a result that is JSON text already: payloads in it must not be serialised again. */
  resultText(json: string, shown: Render): void {
    this.terminal.write(this.json ? `${json}\n` : shown(this.cellLimit()));
  }

  /** Writes the result in place of the previous one, on a terminal. */
  screen(value: unknown, shown: Render): void {
    this.result(value, (cellLimit) => (this.terminal.isTty ? CLEAR_SCREEN : '') + shown(cellLimit));
  }

  /** Writes a part of a result that is too large for memory, as it is. */
  write(text: string): void {
    this.terminal.write(text);
  }

  /** Draws a progress bar; must be called with 1 at the end. */
  progress(share: number, text: string): void {
    if (this.json || !this.terminal.isErrorTty) return;
    const filled = Math.round(Math.min(1, Math.max(0, share)) * BAR_WIDTH);
    const bar = '█'.repeat(filled) + '░'.repeat(BAR_WIDTH - filled);
    this.terminal.writeError(`${CLEAR_LINE}${bar} ${Math.floor(share * 100)} %  ${text}`);
    if (share >= 1) this.terminal.writeError('\n');
  }

  /** A terminal is narrow; a program that reads from a pipe, such as grep, needs the whole text. */
  private cellLimit(): number {
    return this.terminal.isTty ? MAX_CELL : Number.POSITIVE_INFINITY;
  }

  /** Writes something that is not part of the result to standard error. */
  note(message: string): void {
    this.terminal.writeError(this.json ? `${JSON.stringify({ note: message })}\n` : `sluice: ${message}\n`);
  }

  /** Writes a question to standard error; the answer follows on the same line. */
  ask(question: string): void {
    this.terminal.writeError(question);
  }

  error(message: string, problem: unknown): void {
    this.terminal.writeError(
      this.json ? `${JSON.stringify({ error: message, problem })}\n` : `sluice: ${message}\n`,
    );
  }
}

export interface Column<Row> {
  readonly title: string;
  of(row: Row): unknown;
  readonly right?: true;
  /** Never cut. */
  readonly whole?: true;
}

export function table<Row>(rows: readonly Row[], columns: readonly Column<Row>[], cellLimit: number): string {
  const cells = rows.map((row) =>
    columns.map((column) => printable(column.of(row), column.whole ? Number.POSITIVE_INFINITY : cellLimit)),
  );
  const widths = columns.map(({ title }, index) =>
    Math.max(title.length, ...cells.map((line) => line[index]!.length)),
  );
  const line = (texts: readonly string[]) =>
    texts
      .map((text, index) =>
        columns[index]!.right ? text.padStart(widths[index]!) : text.padEnd(widths[index]!),
      )
      .join('  ')
      .trimEnd();
  return `${[line(columns.map(({ title }) => title)), ...cells.map(line)].join('\n')}\n`;
}

/** Removes control characters: data from outside must not control the terminal. */
export function printable(value: unknown, limit: number): string {
  if (value === undefined || value === null || value === '') return '–';
  const text = String(value).replaceAll(/\p{Cc}+/gu, ' ');
  return text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
}

export function secondsText(seconds: number | undefined): string {
  if (seconds === undefined) return '–';
  if (seconds < 60) return `${Math.round(seconds)}s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m${Math.round(seconds % 60)}s`;
  return `${Math.floor(seconds / 3_600)}h${Math.floor((seconds % 3_600) / 60)}m`;
}
