import { Injectable } from '@nestjs/common';
import { Semaphore } from '../../clock/semaphore.ts';
import { type HistoryMessage, LANE_GROUPS, type Place, START } from '../../history/history-message.ts';
import { HistoryReader } from '../../history/history-reader.ts';
import { Problem } from '../../http/problems.ts';
import { ExportHorizon } from './export-horizon.ts';

/** Before compression of the response, as it is in memory. */
const MAX_BYTES = 8 * 1024 * 1024;
/**
 * Pages that are made at a time: each takes several times MAX_BYTES of the heap until it is bytes, which RESPONSES_LIMIT
 * limits. Forty at once ended a replica with a heap of 384 MB.
 */
const MAX_PAGES_AT_ONCE = 2;

interface Cursor extends Place {
  readonly group: number;
  /** Of the first page: what was applied later is not in the export. A cursor that was made of a line has none. */
  readonly horizon: number | undefined;
}

interface PageRequest {
  /** The cursor of the request. */
  readonly cursorText: string | undefined;
  readonly limit: number;
  readonly types: readonly string[] | undefined;
}

export interface ExportedPage {
  readonly lines: Buffer;
  readonly next: string | undefined;
}

/** Finished messages as lines: one lane group after the other, each in the order of application, up to a horizon. */
@Injectable()
export class HistoryExport {
  private readonly pages = new Semaphore(MAX_PAGES_AT_ONCE);

  constructor(
    private readonly reader: HistoryReader,
    private readonly horizons: ExportHorizon,
  ) {}

  async page(request: PageRequest): Promise<ExportedPage> {
    await this.pages.acquire();
    try {
      return await this.read(request);
    } finally {
      this.pages.release();
    }
  }

  private async read({ cursorText, limit, types }: PageRequest): Promise<ExportedPage> {
    const start = cursorText === undefined ? startOf(0, undefined) : cursorOf(cursorText);
    const horizon = start.horizon ?? (await this.horizons.get());
    let cursor: Cursor = { ...start, horizon };
    const lines: string[] = [];
    let bytes = 0;
    while (cursor.group < LANE_GROUPS) {
      const found = await this.reader.open({ group: cursor.group, types }).read(cursor, limit - lines.length);
      const messages = found.filter(({ applied }) => applied <= horizon);
      if (messages.length === 0) {
        cursor = startOf(cursor.group + 1, horizon);
        continue;
      }
      for (const message of messages) {
        const line = lineOf(message);
        bytes += line.length;
        lines.push(line);
        cursor = after(cursor, message);
      }
      if (lines.length >= limit || bytes > MAX_BYTES) return { lines: bytesOf(lines), next: textOf(cursor) };
    }
    return { lines: bytesOf(lines), next: undefined };
  }
}

function startOf(group: number, horizon: number | undefined): Cursor {
  return { group, ...START, horizon };
}

function after({ group, horizon }: Cursor, { applied, position }: HistoryMessage): Cursor {
  return { group, applied, position, horizon };
}

function textOf({ group, applied, position, horizon }: Cursor): string {
  return `${group}-${applied}-${position}-${horizon}`;
}

/** The last line of an export has what is needed: an export that broke off continues behind it. */
function cursorOf(text: string): Cursor {
  const match = /^(\d{1,2})-(\d{1,16})-(\d{1,16})(?:-(\d{1,16}))?$/.exec(text);
  if (!match || Number(match[1]) > LANE_GROUPS)
    throw new Problem('invalid', 'cursor must be the next-cursor of a previous page.');
  const [group, applied, position] = match.slice(1, 4).map(Number) as [number, number, number];
  return { group, applied, position, horizon: match[4] === undefined ? undefined : Number(match[4]) };
}

function bytesOf(lines: readonly string[]): Buffer {
  return Buffer.from(lines.join(''));
}

/** A message as a line. The payload is the text that was posted; one with line breaks is a string, `payloadText`. */
function lineOf(message: HistoryMessage): string {
  const { id, source, type, key, headers, occurredAt, receivedMs, lane, position, applied, payload } =
    message;
  const rest = JSON.stringify({
    ...{ id, source, type, key },
    ...(headers ? { headers } : {}),
    ...(occurredAt === null ? {} : { occurredAt }),
    receivedAt: new Date(receivedMs).toISOString(),
    ...{ lane, position, applied },
  });
  const text = /[\n\r]/.test(payload) ? `"payloadText":${JSON.stringify(payload)}` : `"payload":${payload}`;
  return `${rest.slice(0, -1)},${text}}\n`;
}
