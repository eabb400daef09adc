/** Reports on stderr a promise that cannot be tested here: a silently skipped test would look like a passed one. */
export function reportSkipped(promise: string, why: string): void {
  process.stderr.write(`NOT TESTED: ${promise} (${why})\n`);
}
