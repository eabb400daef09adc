/** Where a command writes to. */
export interface Terminal {
  write(text: string): void;
  /** What is not the answer: faults, progress. */
  writeAside(text: string): void;
  /** Whether somebody looks on who is not a file. */
  readonly watched: boolean;
  readonly watchedAside: boolean;
}

const BAR_WIDTH = 30;
const CLEAR_LINE = '\r\x1b[2K';
const CLEAR_SCREEN = '\x1b[H\x1b[2J';

const MAX_CELL = 60;

/** What a person reads; longer cells of tables are cut. */
export type Shown = (cellLimit: number) => string;

/** What a command says: tables and lines for people, JSON for scripts. */
export class Output {
  constructor(
    private readonly terminal: Terminal,
    readonly json: boolean,
  ) {}

  /** The answer of the command: as JSON, or as what a person reads. */
  answer(value: unknown, shown: Shown): void {
    this.terminal.write(this.json ? `${JSON.stringify(value)}\n` : shown(this.cellLimit()));
  }

  /** The same for an answer that is JSON text already: payloads in it must not be written anew. */
  answerText(json: string, shown: Shown): void {
    this.terminal.write(this.json ? `${json}\n` : shown(this.cellLimit()));
  }

  /** In place of what was there before, where somebody watches. */
  screen(value: unknown, shown: Shown): void {
    this.answer(value, (cellLimit) => (this.terminal.watched ? CLEAR_SCREEN : '') + shown(cellLimit));
  }

  /** How far it is; once more when it is done. */
  progress(share: number, text: string): void {
    if (this.json || !this.terminal.watchedAside) return;
    const filled = Math.round(Math.min(1, Math.max(0, share)) * BAR_WIDTH);
    const bar = '█'.repeat(filled) + '░'.repeat(BAR_WIDTH - filled);
    this.terminal.writeAside(`${CLEAR_LINE}${bar} ${Math.floor(share * 100)} %  ${text}`);
    if (share >= 1) this.terminal.writeAside('\n');
  }

  /** A terminal has only so much room; what reads from a pipe, such as grep, needs all of it. */
  private cellLimit(): number {
    return this.terminal.watched ? MAX_CELL : Number.POSITIVE_INFINITY;
  }

  fault(message: string, problem: unknown): void {
    this.terminal.writeAside(
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

/** What comes from outside must not move the cursor of whoever looks at it. */
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
