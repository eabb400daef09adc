import { type FileHandle, open } from 'node:fs/promises';
import { usageError } from './cli-error.ts';

/** More than the longest line. */
const TAIL_BYTES = 16 * 1024 * 1024;
const LANES_PER_GROUP = 16;

/** The cursor behind the last whole line of an export; what follows that line is cut off. Undefined: the file is empty. */
export async function resumeAt(file: FileHandle): Promise<string | undefined> {
  const { size } = await file.stat();
  const tail = Buffer.alloc(Math.min(size, TAIL_BYTES));
  await file.read(tail, 0, tail.length, size - tail.length);
  const end = tail.lastIndexOf('\n');
  await file.truncate(size - tail.length + end + 1);
  if (end < 0) return undefined;
  const line = tail.subarray(tail.lastIndexOf('\n', end - 1) + 1, end).toString();
  try {
    const { lane, applied, position } = JSON.parse(line);
    if ([lane, applied, position].every(Number.isInteger))
      return `${Math.floor(lane / LANES_PER_GROUP)}-${applied}-${position}`;
  } catch {
    // Reported below.
  }
  throw usageError('the last line of the file is not that of an export');
}

export async function openFile(path: string, flags: string): Promise<FileHandle> {
  try {
    return await open(path, flags);
  } catch (error) {
    throw usageError(`cannot open ${path} (${(error as { code?: string }).code})`);
  }
}
