import type { FailureReason } from './call-result.ts';

/**
 * Errors of this machine or of the network next to it; never counted as an attempt. Some of them a receiver could also cause for ever (a
 * zone whose name servers are broken is EAI_AGAIN too, exactly like an unavailable local resolver): those end with
 * RETENTION_WAITING. If they were counted, a restart of the cluster's DNS would use up the attempts of every listener.
 */
const LOCAL = new Set([
  'EMFILE',
  'ENFILE',
  'ENOMEM',
  'ENOBUFS',
  'EADDRNOTAVAIL',
  'EADDRINUSE',
  'EACCES',
  'EPERM',
  'ENETDOWN',
  'ENETUNREACH',
  'EAI_AGAIN',
  'EAI_MEMORY',
  // The same from Node's other resolver, c-ares.
  'ESERVFAIL',
  'EREFUSED',
  'ETIMEOUT',
  // Lookups of other hosts hang, so this one was not made.
  'LOOKUP_QUEUED',
  // The sender was closed.
  'UND_ERR_DESTROYED',
  'UND_ERR_CLOSED',
]);

const BY_CODE: Readonly<Record<string, FailureReason>> = {
  EGRESS_REFUSED: 'egress',
  ENOTFOUND: 'dns',
  ENODATA: 'dns',
  EAI_NONAME: 'dns',
  EAI_NODATA: 'dns',
  EAI_FAIL: 'dns',
  ECONNREFUSED: 'refused',
  EHOSTUNREACH: 'refused',
  EHOSTDOWN: 'refused',
  ECONNRESET: 'reset',
  ECONNABORTED: 'reset',
  EPIPE: 'reset',
  ETIMEDOUT: 'timeout',
  UND_ERR_CONNECT_TIMEOUT: 'timeout',
  EPROTO: 'tls',
};

/** X.509 verdicts of OpenSSL, as Node names them. */
const CERTIFICATE =
  /CERT|CRL|^(?:SELF_SIGNED|UNABLE_TO_|INVALID_(?:CA|PURPOSE)|HOSTNAME_MISMATCH|PATH_LENGTH)/;
/** `UNSPECIFIED`: a verdict without a name in Node, such as a key that is too small. */
const TLS = /^ERR_(?:O?SSL|TLS)_|^UNSPECIFIED$/;

export interface CallFailure {
  readonly reason: FailureReason;
  readonly detail: string;
}

/**
 * `written`: the request was sent, at least in part. An error that is not known to be local then counts as the receiver's: what
 * it sends can make undici fail in ways without an error code (an assertion), and must count as an attempt nevertheless.
 */
export function failureOf(error: unknown, written = false): CallFailure {
  const { errors } = error as { errors?: readonly unknown[] };
  if (errors !== undefined && errors.length > 0) return worstOf(errors, written);
  const code = codeOf(error);
  const reason = kindOf(code, error, written);
  return { reason, detail: reason === 'egress' ? (error as Error).message : detailOf(code, error) };
}

/** One error for each address that was tried; local only if none of them is the receiver's. */
function worstOf(errors: readonly unknown[], written: boolean): CallFailure {
  const failures = errors.map((error) => failureOf(error, written));
  return failures.find(({ reason }) => reason !== 'local') ?? failures[0]!;
}

function kindOf(code: string, error: unknown, written: boolean): FailureReason {
  if (code === 'UND_ERR_SOCKET') return isBadResponse(error) ? 'protocol' : 'reset';
  const known = BY_CODE[code];
  if (known) return known;
  if (LOCAL.has(code)) return 'local';
  if (TLS.test(code) || CERTIFICATE.test(code)) return 'tls';
  // The remaining errors of undici and its parser are about the received bytes.
  if (/^(?:UND_ERR|HPE)_/.test(code) || (error as Error)?.name === 'HTTPParserError') return 'protocol';
  return written ? 'protocol' : 'local';
}

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : '';
}

/** undici closes a connection with "bad response" or "bad upgrade" when it receives a response that it did not ask for. */
function isBadResponse(error: unknown): boolean {
  return /^bad /.test((error as Error).message);
}

/** The code alone: messages of Node or undici may quote addresses and names. */
function detailOf(code: string, error: unknown): string {
  if (code === 'UND_ERR_SOCKET') {
    return isBadResponse(error) ? (error as Error).message : 'the other side closed the connection';
  }
  return code || ((error as Error | null)?.name ?? 'unknown');
}
