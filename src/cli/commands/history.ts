import type { FileHandle } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { CliError, EXIT, usageError } from '../cli-error.ts';
import { type Arguments, actionOf, type Command, type Context } from '../command.ts';
import { openFile, resumeAt } from '../exported-file.ts';
import { type LineBatch, lineBatches } from '../line-batches.ts';
import { table } from '../output.ts';

const PATH = '/v1/history';
const PAGE = '2000';
const BATCH = { lines: 1_000, bytes: 4 * 1024 * 1024 };
const RETRIES = 5;

export function historyFrom(stdin: Readable): Command {
  return {
    name: 'history',
    summary: 'Show, export or import history, or erase a key from it.',
    usages: ['status', 'export [<file>] [--resume]', 'import <file> | -', 'erase <key> --reason <text>'],
    options: {
      type: { type: 'string', multiple: true, about: 'export: only this type, or pattern with *.' },
      resume: { type: 'boolean', about: 'export: continue an interrupted one.' },
      'from-line': { type: 'string', value: 'number', about: 'import: begin with this line.' },
      'no-check': { type: 'boolean', about: 'import: do not check the whole file first.' },
      reason: { type: 'string', about: 'erase: for the audit log.' },
    },
    run(args, context) {
      const action = actionOf(args, 'history', ['status', 'export', 'import', 'erase']);
      const [, subject, ...more] = args.positionals;
      if (more.length > 0) throw usageError('too many arguments; see "sluice history --help"');
      if (action === 'status') return status(context);
      if (action === 'export') return exportTo(subject, args, context);
      if (subject === undefined)
        throw usageError(action === 'import' ? 'give a file, or - for standard input' : 'give a key');
      return action === 'import' ? importFrom(subject, stdin, args, context) : erase(subject, args, context);
    },
  };
}

async function status({ api, output }: Context): Promise<number> {
  const { body } = await api.get(PATH);
  output.result(body, (limit) =>
    [
      `${body.messages} messages in ${body.blocks} blocks, ${body.bytes} bytes`,
      body.oldest ? `, received ${body.oldest} to ${body.newest}\n` : '\n',
      table<{ pattern: string; kept: string; completeFrom: string | null }>(
        body.types,
        [
          { title: 'TYPES', of: ({ pattern }) => pattern },
          { title: 'KEPT', of: ({ kept }) => kept },
          { title: 'COMPLETE FROM', of: ({ completeFrom }) => completeFrom ?? 'the beginning' },
        ],
        limit,
      ),
    ].join(''),
  );
  return EXIT.ok;
}

async function exportTo(path: string | undefined, args: Arguments, context: Context): Promise<number> {
  const { api, output, stopping } = context;
  const resume = args.flag('resume');
  if (resume && path === undefined) throw usageError('--resume needs a file');
  const file = path === undefined ? undefined : await openFile(path, resume ? 'r+' : 'wx');
  try {
    const { messages } = (await api.get(PATH)).body;
    let cursor = resume ? await resumeAt(file!) : undefined;
    let written = resume ? (await file!.stat()).size : 0;
    let lines = 0;
    do {
      const types = args.texts('type').join(',') || undefined;
      const page = await api.get(`${PATH}/messages`, { cursor, types, limit: PAGE });
      if (file) written += await append(file, page.text, written);
      else output.write(page.text);
      lines += countLines(page.text);
      cursor = page.headers.get('next-cursor') ?? undefined;
      // Messages that are still in the inbox are exported as well, so the total is not known.
      if (cursor) output.progress(Math.min(0.99, lines / (messages + 1)), `${lines} messages`);
    } while (cursor && !stopping.aborted);
    output.progress(1, `${lines} messages`);
    if (file) output.result({ file: path, messages: lines }, () => `${lines} messages written to ${path}\n`);
    if (cursor) output.note('stopped; continue with --resume');
    return cursor ? EXIT.failed : EXIT.ok;
  } finally {
    await file?.close();
  }
}

async function append(file: FileHandle, text: string, at: number): Promise<number> {
  const bytes = Buffer.from(text);
  for (let done = 0; done < bytes.length; )
    done += (await file.write(bytes, done, bytes.length - done, at + done)).bytesWritten;
  return bytes.length;
}

function countLines(text: string): number {
  let count = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count += 1;
  return count;
}

interface Totals {
  imported: number;
  duplicates: number;
  /** With CELLS: of keys of other cells, left out. */
  ofOtherCells?: number;
  /** Of the next line. */
  next: number;
}

async function importFrom(path: string, stdin: Readable, args: Arguments, context: Context): Promise<number> {
  const from = fromLine(args);
  const file = path === '-' ? undefined : await openFile(path, 'r');
  try {
    const size = (await file?.stat())?.size;
    const source = () => file?.createReadStream({ start: 0, autoClose: false }) ?? stdin;
    // A bad line in the middle is found before anything is imported; standard input can be read only once.
    if (file && !args.flag('no-check'))
      await sendAll(lineBatches(source(), from, BATCH), { dryRun: true, size, context });
    const { stopping, output } = context;
    const totals = await sendAll(lineBatches(source(), from, BATCH), { dryRun: false, size, context });
    output.result(
      totals,
      () =>
        `${totals.imported} messages imported, ${totals.duplicates} were there already${leftOut(totals)}\n`,
    );
    if (stopping.aborted) output.note(`stopped; continue with --from-line ${totals.next}`);
    return stopping.aborted ? EXIT.failed : EXIT.ok;
  } finally {
    await file?.close();
  }
}

function leftOut({ ofOtherCells = 0 }: Totals): string {
  return ofOtherCells > 0
    ? `, ${ofOtherCells} of other cells were left out: import the file to each cell`
    : '';
}

interface Pass {
  readonly dryRun: boolean;
  readonly size: number | undefined;
  readonly context: Context;
}

/** One request after the other: the order of the lines is the order of history. */
async function sendAll(batches: AsyncIterable<LineBatch>, { dryRun, size, context }: Pass): Promise<Totals> {
  const { api, output, stopping } = context;
  const totals: Totals = { imported: 0, duplicates: 0, next: 1 };
  let bytes = 0;
  for await (const { firstLine, lines, text } of batches) {
    if (stopping.aborted) return totals;
    const options = {
      query: { dryRun: String(dryRun), firstLine: String(firstLine) },
      body: text.toString(),
      contentType: 'application/x-ndjson',
      retries: RETRIES,
    };
    const { body } = await api.call('POST', `${PATH}/import`, options).catch((error) => {
      throw totals.next === 1 || dryRun ? error : withNextStep(error, firstLine);
    });
    totals.imported += body.imported;
    totals.duplicates += body.duplicates;
    if (body.ofOtherCells !== undefined) totals.ofOtherCells = (totals.ofOtherCells ?? 0) + body.ofOtherCells;
    totals.next = firstLine + lines;
    bytes += text.length;
    const what = dryRun ? 'lines checked' : 'lines imported';
    if (size) output.progress(Math.min(0.99, bytes / size), `${totals.next - 1} ${what}`);
  }
  if (size) output.progress(1, `${totals.next - 1} lines ${dryRun ? 'checked' : 'imported'}`);
  return totals;
}

function withNextStep(error: unknown, firstLine: number): unknown {
  if (!(error instanceof CliError)) return error;
  const hint = `The lines before ${firstLine} are imported; continue with --from-line ${firstLine}`;
  return new CliError(`${error.message}\n${hint}`, error.exitCode, error.problem, error.transient);
}

function fromLine(args: Arguments): number {
  const text = args.text('from-line') ?? '1';
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text);
  throw usageError('--from-line must be a whole number above 0');
}

async function erase(key: string, args: Arguments, { api, output }: Context): Promise<number> {
  const reason = args.text('reason');
  if (reason === undefined) throw usageError('erase needs --reason <text>');
  const { body } = await api.call('DELETE', `${PATH}/keys/${encodeURIComponent(key)}`, { query: { reason } });
  const later =
    body.inInbox > 0 ? `; ${body.inInbox} are still in the inbox, repeat it after their retention` : '';
  output.result(body, () => `${body.erased} messages erased${later}\n`);
  return EXIT.ok;
}
