/** A promise that cannot be tried here is named on stderr: a test that passes over it would look like one that holds. */
export function notTried(promise: string, why: string): void {
  process.stderr.write(`NOT TRIED: ${promise} (${why})\n`);
}
