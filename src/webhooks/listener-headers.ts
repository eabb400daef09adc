/** Headers that the service sets itself, and hop-by-hop headers: a listener's own headers must not replace these. */
const RESERVED = new Set([
  'host',
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
  'traceparent',
  'tracestate',
]);
const RESERVED_PREFIXES = ['content-', 'webhook-', 'ce-'];
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}$/;
/** Visible ASCII, with blanks and tabs inside: every receiver reads it the same, and no line can end in it. */
const VALUE = /^(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?$/;
const MAX_VALUE = 4_096;

/** Why a listener may not have this header; undefined: it may. Checked at PUT, and again before every send. */
export function headerRefusal(name: string, value: string): string | undefined {
  if (!TOKEN.test(name)) return 'is not a header name';
  const lower = name.toLowerCase();
  if (RESERVED.has(lower) || RESERVED_PREFIXES.some((prefix) => lower.startsWith(prefix))) {
    return 'is a header that the service sets itself';
  }
  if (value.length > MAX_VALUE) return `has a value of more than ${MAX_VALUE} characters`;
  return VALUE.test(value) ? undefined : 'has a value with other than printable ASCII characters';
}
