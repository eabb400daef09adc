import { copyFile, open, stat, truncate } from 'node:fs/promises';

const LIMIT_BYTES = 10 * 1024 * 1024;
const CHECK_EVERY_MS = 60_000;
const TAIL_BYTES = 64 * 1024;

/**
 * Keeps the log at about 10 MB plus one older file. Copied and cut rather than renamed: the server writes
 * through the handle it got at its start (opened to append, so it goes on at the new end).
 */
export async function capLog(path: string, limitBytes: number = LIMIT_BYTES): Promise<void> {
  const size = await sizeOf(path);
  if (size <= limitBytes) return;
  await copyFile(path, `${path}.1`);
  await truncate(path, 0);
}

/** Caps the log as long as the server runs; does not keep the process alive. Returns how to end it. */
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

/** What the server said since `offset`, at most the last 64 KB of it. */
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
