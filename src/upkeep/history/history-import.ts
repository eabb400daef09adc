import { Inject, Injectable, Optional } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Database } from '../../database/database.ts';
import type { Transaction } from '../../database/transaction.ts';
import { Archive } from '../../history/archive.ts';
import { HistoryRules } from '../../history/history-rules.ts';
import { AuditLog } from '../../http/audit/audit-log.ts';
import { type FieldError, Problem } from '../../http/problems.ts';
import { Faults } from '../../inbox/fields.ts';
import { IngestStore, identity } from '../../inbox/ingest-store.ts';
import { sourceOfCaller } from '../../inbox/new-message.ts';
import { OWN_LANES, type OwnLanes } from '../../inbox/own-lanes.ts';
import { type ImportedLine, parseLine } from './import-line.ts';

/** history.shareImports — a rebuild that starts waits for this transaction, and this transaction sees one that has started. */
export const SHARE_IMPORTS = `SELECT pg_advisory_xact_lock_shared(hashtext('sluice'), hashtext('history.import'))`;

/** history.openRebuild — also one that has switched: its lanes are past the places of imported messages. */
export const OPEN_REBUILD = `
  SELECT model, status IN ('switched', 'rolled-back') AS kept FROM rebuild WHERE ended_at IS NULL ORDER BY kept LIMIT 1`;

export const MAX_LINES = 2_000;
const MAX_ERRORS = 20;
/** To check 16 MiB of numbers takes seconds: meanwhile other requests are served. */
const MAX_UNPAUSED_BYTES = 256 * 1024;
const LINE_BREAK = 0x0a;
const CARRIAGE_RETURN = 0x0d;

interface NumberedLine extends ImportedLine {
  readonly number: number;
}

export interface ImportRequest {
  readonly body: Buffer;
  readonly caller: string;
  /** The number of the first line. */
  readonly firstLine: number;
  /** Only checks the lines. */
  readonly dryRun: boolean;
}

export interface Imported {
  readonly imported: number;
  readonly duplicates: number;
  /** With CELLS: left out, because their keys belong to other cells. */
  readonly ofOtherCells?: number;
}

/** Brings messages into history, without processing them: all of a request or none. */
@Injectable()
export class HistoryImport {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly database: Database,
    private readonly store: IngestStore,
    private readonly archive: Archive,
    private readonly rules: HistoryRules,
    private readonly audit: AuditLog,
    @Optional() @Inject(OWN_LANES) private readonly ownLanes: OwnLanes | undefined,
  ) {}

  async run(request: ImportRequest): Promise<Imported> {
    const all = await this.read(request);
    const { ownLanes } = this;
    if (!ownLanes) return this.importOwn(all, request);
    const own = all.filter(({ message }) => ownLanes.has(message.lane));
    return { ...(await this.importOwn(own, request)), ofOtherCells: all.length - own.length };
  }

  private async importOwn(
    lines: readonly NumberedLine[],
    { caller, firstLine, dryRun }: ImportRequest,
  ): Promise<Imported> {
    if (lines.length === 0) return { imported: 0, duplicates: 0 };
    if (dryRun) return this.check(lines);
    return this.database.transaction(async (tx) => {
      await refuseBesideRebuild(tx);
      const messages = lines.map(({ message }) => message);
      const now = new Date().toISOString();
      const receivedAt = lines.map((line) => line.receivedAt ?? now);
      // Through the inbox: its unique index decides between this and a message that is posted at the same time.
      const inserted = await this.store.insertFinished(messages, receivedAt, tx);
      const duplicates = lines.length - inserted.length;
      if (duplicates > 0) refuseConflicts(lines, await this.store.compare(messages, tx), inserted);
      await this.archive.move(
        inserted.map(({ position }) => position),
        tx,
      );
      const filter = { firstLine, lastLine: lines.at(-1)!.number };
      await this.audit.record({ by: caller, action: 'history.import', filter, count: inserted.length }, tx);
      return { imported: inserted.length, duplicates };
    });
  }

  private async check(lines: readonly NumberedLine[]): Promise<Imported> {
    const stored = await this.store.compare(lines.map(({ message }) => message));
    refuseConflicts(lines, stored, []);
    return { imported: lines.length - stored.size, duplicates: stored.size };
  }

  private async read({ body, caller, firstLine }: ImportRequest): Promise<NumberedLine[]> {
    const rules = { defaultSource: sourceOfCaller(caller), maxBytes: this.settings.bodyLimit };
    const errors: FieldError[] = [];
    const lines: NumberedLine[] = [];
    let unpaused = 0;
    for (const { index, bytes } of linesOf(body)) {
      unpaused += bytes.length;
      if (unpaused > MAX_UNPAUSED_BYTES) {
        await new Promise(setImmediate);
        unpaused = bytes.length;
      }
      const number = firstLine + index;
      const faults = new Faults();
      const line = parseLine(bytes, rules, faults);
      if (line) this.checkKept(line, faults);
      errors.push(...faults.list.map(({ pointer, detail }) => ({ pointer: `/${number}${pointer}`, detail })));
      if (errors.length >= MAX_ERRORS) break;
      if (line) lines.push({ ...line, number });
      if (lines.length > MAX_LINES) break;
    }
    if (errors.length > 0) throw refused('invalid', errors);
    if (lines.length > MAX_LINES)
      throw new Problem('invalid', `A request may have ${MAX_LINES} lines; send the others in another one.`);
    return lines;
  }

  private checkKept({ message, receivedAt }: ImportedLine, faults: Faults): undefined {
    if (this.rules.indexOf(message.type) < 0)
      return faults.add('/type', `"${message.type}" is not kept in history; add it to HISTORY`);
    const keptMs = this.rules.keptMs([message.type]);
    if (keptMs !== undefined && receivedAt !== undefined && Date.parse(receivedAt) < Date.now() - keptMs)
      return faults.add('/receivedAt', 'is older than HISTORY keeps messages of this type');
    return undefined;
  }
}

/**
 * Some lanes of the rebuild may be past the places of these messages, and others not. After its switch all are: the messages
 * would stay in the inbox, and would be applied to only one of the two schemas.
 */
async function refuseBesideRebuild(tx: Transaction): Promise<void> {
  await tx.query(SHARE_IMPORTS);
  const [rebuild] = await tx.query<{ model: string; kept: boolean }>(OPEN_REBUILD);
  if (rebuild)
    throw new Problem(
      'conflict',
      rebuild.kept
        ? `The schema that a rebuild of ${rebuild.model} replaced is kept for a rollback, and would not have these messages. Drop it, then import.`
        : `A rebuild of ${rebuild.model} reads history: it would have a part of these messages. Import when it has ended, or cancel it.`,
    );
}

function refuseConflicts(
  lines: readonly NumberedLine[],
  stored: ReadonlyMap<number, { readonly same: boolean }>,
  inserted: readonly { readonly id: string; readonly source: string }[],
): void {
  const own = new Set(inserted.map(identity));
  const errors = lines.flatMap(({ message, number }, index) => {
    // The first of several lines of one message is compared with itself.
    if (stored.get(index)?.same !== false) return [];
    const where = own.has(identity(message)) ? 'an earlier line' : 'a stored message';
    return [{ pointer: `/${number}/id`, detail: `"${message.id}" is taken by ${where} with other content` }];
  });
  if (errors.length > 0) throw refused('conflict', errors.slice(0, MAX_ERRORS));
}

/** Pointers begin with the number of the line. */
function refused(problem: 'invalid' | 'conflict', errors: readonly FieldError[]): Problem {
  const [, line, pointer] = /^\/(\d+)(.*)$/s.exec(errors[0]!.pointer)!;
  const rest = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
  const where = pointer ? `${pointer} ` : '';
  return new Problem(
    problem,
    `Line ${line}: ${where}${errors[0]!.detail.replace(/\.$/, '')}${rest}. Nothing was imported.`,
    { errors },
  );
}

/** One at a time, without blank ones: 16 MiB of line breaks are as many lines, and an object each takes gigabytes. */
function* linesOf(body: Buffer): Iterable<{ readonly index: number; readonly bytes: Buffer }> {
  let from = 0;
  for (let index = 0; from < body.length; index++) {
    const first = body[from] === CARRIAGE_RETURN ? from + 1 : from;
    if (first === body.length || body[first] === LINE_BREAK) {
      from = first + 1;
      continue;
    }
    const found = body.indexOf(LINE_BREAK, from);
    const end = found < 0 ? body.length : found;
    yield { index, bytes: body.subarray(from, end) };
    from = end + 1;
  }
}
