/**
 * What keeps a replica that lost its lease from doing harm, each for itself. All of it, always: only tests and the
 * stress run take one away, to see that what it guards against then happens and that they would notice.
 */
export const GUARDS = {
  /** The fence proves the token. */
  fence: true,
  /** Settling counts the rows it changed. */
  settledCount: true,
};
