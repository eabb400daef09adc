/** Ends the process if Node is too old, with a line that says so; without it the first error would be about syntax. */
export function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  console.error(`sluice: Node ${process.versions.node} is too old; 20.19 or newer is needed`);
  process.exit(1);
}
