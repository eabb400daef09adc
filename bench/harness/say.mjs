/** Progress goes to stderr, so that stdout is the table alone. */
export function say(line) {
  process.stderr.write(`${line}\n`);
}
