/** As much of HTTP/1.1 as the load and the receiver need, who have the processors in common with what they measure. */

export const HEAD_END = Buffer.from('\r\n\r\n');
const LENGTH = /\r\ncontent-length: *(\d+)/i;

/** Bytes after the head; neither side sends chunks. */
export function bodyLength(head) {
  return Number(LENGTH.exec(head)?.[1] ?? 0);
}
