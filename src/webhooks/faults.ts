import type { Fault } from './answer.ts';

/**
 * Faults of this machine or the network next to it; never charged. Those that a receiver could also cause for ever (a zone
 * whose name servers are broken is EAI_AGAIN too, exactly as our resolver being away) end with RETENTION_WAITING; the other
 * way round, a restart of the cluster's DNS would use up the attempts of every listener.
 */
const OURS = new Set([
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
  // The same of Node's other resolver, c-ares.
  'ESERVFAIL',
  'EREFUSED',
  'ETIMEOUT',
  // So many other hosts hang that this one was not asked for.
  'LOOKUP_IN_LINE',
  // The sender was closed.
  'UND_ERR_DESTROYED',
  'UND_ERR_CLOSED',
]);

const BY_CODE: Readonly<Record<string, Fault>> = {
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
/** `UNSPECIFIED`: a verdict that Node has no name for, such as a key that is too small. */
const TLS = /^ERR_(?:O?SSL|TLS)_|^UNSPECIFIED$/;

export interface NamedFault {
  readonly fault: Fault;
  readonly detail: string;
}

/**
 * `written`: the request was on its way. An error that is not known to be ours is then the receiver's: what it sends can make
 * undici fail in ways that have no code of its own (an assertion), and it must not escape being charged that way.
 */
export function faultOf(error: unknown, written = false): NamedFault {
  const { errors } = error as { errors?: readonly unknown[] };
  if (errors !== undefined && errors.length > 0) return worstOf(errors, written);
  const code = codeOf(error);
  const fault = kindOf(code, error, written);
  return { fault, detail: fault === 'egress' ? (error as Error).message : detailOf(code, error) };
}

/** One error for each address that was tried; only if none is the receiver's is it ours. */
function worstOf(errors: readonly unknown[], written: boolean): NamedFault {
  const faults = errors.map((error) => faultOf(error, written));
  return faults.find(({ fault }) => fault !== 'ours') ?? faults[0]!;
}

function kindOf(code: string, error: unknown, written: boolean): Fault {
  if (code === 'UND_ERR_SOCKET') return isNonsense(error) ? 'protocol' : 'reset';
  const known = BY_CODE[code];
  if (known) return known;
  if (OURS.has(code)) return 'ours';
  if (TLS.test(code) || CERTIFICATE.test(code)) return 'tls';
  // What is left of undici's and the parser's is about what came over the wire.
  if (/^(?:UND_ERR|HPE)_/.test(code) || (error as Error)?.name === 'HTTPParserError') return 'protocol';
  return written ? 'protocol' : 'ours';
}

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : '';
}

/** undici ends a connection itself, with "bad response" or "bad upgrade", for an answer to what it never asked. */
function isNonsense(error: unknown): boolean {
  return /^bad /.test((error as Error).message);
}

/** The code tells it in one word; a message of Node's or undici's may quote addresses and names. */
function detailOf(code: string, error: unknown): string {
  if (code === 'UND_ERR_SOCKET') {
    return isNonsense(error) ? (error as Error).message : 'the other side closed the connection';
  }
  return code || ((error as Error | null)?.name ?? 'unknown');
}
