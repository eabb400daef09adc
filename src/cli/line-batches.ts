/** Lines that are sent in one request. */
export interface LineBatch {
  readonly firstLine: number;
  readonly lines: number;
  /** With the line breaks. */
  readonly text: Buffer;
}

export interface BatchLimits {
  readonly lines: number;
  readonly bytes: number;
}

const LINE_BREAK = 0x0a;

/** Splits a stream into batches of whole lines, from line `from` on. A line that is longer than the limit is a batch of its own. */
export async function* lineBatches(
  chunks: AsyncIterable<Buffer | string>,
  from: number,
  limits: BatchLimits,
): AsyncGenerator<LineBatch> {
  let number = 0;
  let batch: Buffer[] = [];
  let bytes = 0;
  const take = () => {
    const taken = { firstLine: number - batch.length + 1, lines: batch.length, text: Buffer.concat(batch) };
    batch = [];
    bytes = 0;
    return taken;
  };
  for await (const line of linesOf(chunks)) {
    if (number + 1 >= from && batch.length > 0 && bytes + line.length > limits.bytes) yield take();
    number += 1;
    if (number < from) continue;
    batch.push(line);
    bytes += line.length;
    if (batch.length === limits.lines) yield take();
  }
  if (batch.length > 0) yield take();
}

async function* linesOf(chunks: AsyncIterable<Buffer | string>): AsyncGenerator<Buffer> {
  let parts: Buffer[] = [];
  for await (const chunk of chunks) {
    const bytes = Buffer.from(chunk);
    let from = 0;
    for (let end = bytes.indexOf(LINE_BREAK); end >= 0; end = bytes.indexOf(LINE_BREAK, from)) {
      yield Buffer.concat([...parts, bytes.subarray(from, end + 1)]);
      parts = [];
      from = end + 1;
    }
    if (from < bytes.length) parts.push(bytes.subarray(from));
  }
  if (parts.length > 0) yield Buffer.concat(parts);
}
