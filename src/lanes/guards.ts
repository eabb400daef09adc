/**
 * Two guards, each sufficient by itself, keep a replica that lost its lease from changing anything. Both are always on: only
 * tests and fault runs turn one off, to show that the failure it prevents then happens and is detected.
 */
export const GUARDS = {
  /** The fence proves the token. */
  fence: true,
  /** Settling counts the rows it changed. */
  settledCount: true,
};
