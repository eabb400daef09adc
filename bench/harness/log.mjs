/** Progress goes to stderr, so that stdout is the table alone. */
export function log(line) {
  process.stderr.write(`${line}\n`);
}
