import { copyFile, open, stat, truncate } from 'node:fs/promises';

const LIMIT_BYTES = 10 * 1024 * 1024;
const CHECK_EVERY_MS = 60_000;
const TAIL_BYTES = 64 * 1024;

/**
 * Limits the log to about 10 MB plus one older file. It is copied and truncated, not renamed: the server keeps writing to
 * the file handle it got at its start (opened for append, so it continues at the new end).
 */
export async function capLog(path: string, limitBytes: number = LIMIT_BYTES): Promise<void> {
  const size = await sizeOf(path);
  if (size <= limitBytes) return;
  await copyFile(path, `${path}.1`);
  await truncate(path, 0);
}

/** Limits the log while the server runs; does not keep the process alive. Returns a function that ends it. */
export function keepLogCapped(path: string): () => void {
  const timer = setInterval(() => void capLog(path).catch(() => {}), CHECK_EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}

export async function sizeOf(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  );
}

/** The log of the server since `offset`, at most the last 64 KB. */
export async function logSince(path: string, offset: number): Promise<string> {
  const from = Math.max(offset, (await sizeOf(path)) - TAIL_BYTES);
  const file = await open(path, 'r');
  try {
    const buffer = Buffer.alloc(TAIL_BYTES);
    const { bytesRead } = await file.read(buffer, 0, TAIL_BYTES, from);
    return buffer.toString('utf8', 0, bytesRead);
  } finally {
    await file.close();
  }
}
