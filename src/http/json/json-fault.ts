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
  /** RFC 6901; '' is the document. A key that cannot be written (NUL, unpaired surrogate) is reported at its object. */
  pointer: string;
  /** In UTF-16 units from the beginning of the text. */
  offset: number;
  /** One sentence that quotes at most 40 characters of the text. */
  detail: string;
}
