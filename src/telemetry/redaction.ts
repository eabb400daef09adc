import { types } from 'node:util';

/** Names of fields that hold credentials, compared without case and punctuation: `apiKey` equals `API_KEY` and `api-key`. */
const SECRET_FIELDS = [
  ...['authorization', 'cookie', 'setcookie', 'secret', 'secrets', 'password', 'token', 'signature'],
  ...['apikey', 'apikeys', 'databaseurl', 'connectionstring', 'secretskeys'],
];
/** Names of fields that hold data of users. */
const PRIVATE_FIELDS = ['payload', 'data', 'body', 'headers', 'parameters', 'values'];
const CENSORED = new Set([...SECRET_FIELDS, ...PRIVATE_FIELDS]);

const MAX_DEPTH = 6;

/** The fields of a log line with secret and private fields censored by name, at any depth. */
export function withoutSecrets(fields: Record<string, unknown>): Record<string, unknown> {
  return censored(fields, 0) as Record<string, unknown>;
}

/** Second line of defence: replaces secrets that are recognised by their form, anywhere in a line. */
export function withoutSecretTexts(line: string): string {
  return line
    .replace(/\bsk_([A-Za-z0-9]{1,32})_[\w-]{8,}/g, 'sk_$1_[redacted]')
    .replace(/\bwhsec_[\w+/=-]+/g, 'whsec_[redacted]')
    .replace(/(\b[a-z][a-z\d+.-]*:\/\/[^\s/:@"\\]*:)[^\s/"\\]+@/gi, '$1[redacted]@');
}

function censored(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (isError(value)) return errorFields(value);
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (depth === MAX_DEPTH) return '[deeper]';
  if (Array.isArray(value)) return value.map((item) => censored(item, depth + 1));
  const { toJSON } = value as { toJSON?: () => unknown };
  if (typeof toJSON === 'function') return censored(toJSON.call(value), depth + 1);
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      isCensored(name) ? '[redacted]' : censored(inner, depth + 1),
    ]),
  );
}

function isCensored(name: string): boolean {
  return CENSORED.has(name.replace(/[^A-Za-z\d]/g, '').toLowerCase());
}

function isError(value: object): value is Error & { code?: unknown } {
  return value instanceof Error || types.isNativeError(value);
}

/**
 * Name, code, message and stack, and the same of its cause without the stack. PostgreSQL's `detail` and `where` are omitted on purpose: they quote the values of the
 * failing row. The messages of data exceptions (class 22: `invalid input syntax for type uuid: "…"`) and of JSON.parse
 * quote values, too: there everything between quotes is removed.
 */
function errorFields(error: Error & { code?: unknown }): Record<string, unknown> {
  const { stack, message, cause } = error;
  const fields = withoutStack(error);
  const caused = typeof cause === 'object' && cause !== null && isError(cause);
  return {
    ...fields,
    stack: stack?.replace(message, () => fields.message),
    ...(caused ? { cause: withoutStack(cause) } : {}),
  };
}

function withoutStack({ name, message, code }: Error & { code?: unknown }) {
  const isQuoting = name === 'SyntaxError' || /^22/.test(String(code));
  return {
    name,
    message: isQuoting ? message.replace(/".*"/s, '"…"') : message,
    ...(code ? { code } : {}),
  };
}
