export type JsonFaultCode =
  | 'malformed'
  | 'duplicate-key'
  | 'unsafe-key'
  | 'nul'
  | 'lone-surrogate'
  | 'inexact-number'
  | 'too-deep'
  | 'too-many';

export interface JsonFault {
  code: JsonFaultCode;
  /** RFC 6901; '' is the document. A key that cannot be named (NUL, half a pair) is reported at its object. */
  pointer: string;
  /** In UTF-16 units from the beginning of the text. */
  offset: number;
  /** One sentence; quotes at most 40 characters of the text. */
  detail: string;
}

/** One step of a pointer, escaped as RFC 6901 asks. */
export function pointerStep(name: string): string {
  return `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}
