import { Refused } from './setting.ts';

export const DATABASE_URL_FORM =
  '`postgres://user:password@host:port/database`, with special characters percent-encoded; several hosts separated by commas';

/** What this service accepts of libpq's `target_session_attrs`. Both mean the server that accepts writes. */
const WRITABLE = ['read-write', 'primary'];
const READABLE = ['standby', 'prefer-standby', 'read-only', 'any'];
const ATTRIBUTE = 'target_session_attrs';

/** Returns undefined for a URL that node-postgres cannot parse: its own error would come late and be unclear. */
export function parseDatabaseUrl(raw: string): string | Refused | undefined {
  return parseServers(raw, WRITABLE, 'because the service writes');
}

/** The URL of standbys. */
export function parseReadDatabaseUrl(raw: string): string | Refused | undefined {
  return parseServers(raw, READABLE, 'because only standbys are used');
}

function parseServers(raw: string, attributes: readonly string[], why: string): string | Refused | undefined {
  const text = raw.trim();
  const servers = serversOf(text);
  if (!servers) return undefined;
  if (new Set(servers.map(({ address }) => address)).size < servers.length)
    return new Refused('a host is named twice');
  const parameters = parametersOf(text);
  if (parameters.getAll(ATTRIBUTE).some((one) => !attributes.includes(one)))
    return new Refused(`${ATTRIBUTE} must be ${attributes.join(' or ')}, ${why}`);
  if (servers.length > 1 && ['host', 'port'].some((name) => parameters.has(name)))
    return new Refused('several hosts belong before the name of the database, not after the question mark');
  return text;
}

/** One server that a URL names. */
export interface NamedServer {
  /** As an operator writes it: `host:port`. */
  readonly address: string;
  readonly host: string;
  readonly port: number;
  /** Leads to this server only; every client can parse it. */
  readonly url: string;
}

const DEFAULT_PORT = 5432;
/** libpq's form with several hosts, which `new URL` cannot parse. */
const PARTS = /^(postgres(?:ql)?:\/\/)(?=\S)((?:[^/?\s]*@)?)([^@/?\s]*)((?:\/[^?\s]*)?)((?:\?\S*)?)$/;

/** The servers of a URL, in the given order; undefined: it cannot be parsed. */
export function serversOf(url: string): readonly NamedServer[] | undefined {
  const [, scheme, credentials, hosts, path, query] = PARTS.exec(url) ?? [];
  if (hosts === undefined) return undefined;
  const others = withoutAttribute(query!);
  const texts = hosts.split(',');
  const servers = texts.map((host) => serverAt(`${scheme}${credentials}${host}${path}${others}`));
  if (texts.length > 1 && texts.includes('')) return undefined;
  return servers.every((one) => one !== undefined) ? servers : undefined;
}

/** The primary has to be searched: there are several servers, or the URL says that the server may be a standby. */
export function namesStandbys(url: string): boolean {
  return (serversOf(url)?.length ?? 0) > 1 || parametersOf(url).has(ATTRIBUTE);
}

function serverAt(url: string): NamedServer | undefined {
  try {
    const { username, password, pathname, hostname, port } = new URL(url);
    decodeURIComponent(username + password + pathname);
    const number = Number(port || DEFAULT_PORT);
    return { address: `${hostname}:${number}`, host: hostname.replace(/^\[|\]$/g, ''), port: number, url };
  } catch {
    return undefined;
  }
}

function parametersOf(url: string): URLSearchParams {
  return new URLSearchParams(url.split('?')[1] ?? '');
}

/** Only libpq knows it. Removed as text: URLSearchParams would write the other parameters differently. */
function withoutAttribute(query: string): string {
  const parameters = query.slice(1).split('&');
  const kept = parameters.filter((one) => one !== '' && !one.startsWith(`${ATTRIBUTE}=`));
  return kept.length ? `?${kept.join('&')}` : '';
}
