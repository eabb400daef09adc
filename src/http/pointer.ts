/** The JSON pointer (RFC 6901) to a member of the value at `parent`. */
export function pointerTo(parent: string, name: string): string {
  return `${parent}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}
