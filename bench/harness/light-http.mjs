/** The minimum of HTTP/1.1 that the load and the receiver need: they share the CPU with what they measure. */

export const HEAD_END = Buffer.from('\r\n\r\n');
const LENGTH = /\r\ncontent-length: *(\d+)/i;

/** Length of the body; neither side uses chunked encoding. */
export function bodyLength(head) {
  return Number(LENGTH.exec(head)?.[1] ?? 0);
}
