/** The kind of a well-known name, and its addresses, of which EGRESS_ALLOW must permit one. */
interface LocalName {
  readonly kind: string;
  readonly addresses: readonly string[];
}

const THIS_MACHINE: LocalName = { kind: 'loopback', addresses: ['127.0.0.1', '::1'] };
const METADATA: LocalName = { kind: 'metadata', addresses: ['169.254.169.254', 'fd00:ec2::254'] };

/** RFC 6761 reserves `localhost` and everything below it; the rest is what distributions write into /etc/hosts. */
const LOOPBACK_NAME =
  /^(?:(?:.+\.)?localhost|localhost\.localdomain|localhost([46])(?:\.localdomain\1)?|ip6-(?:localhost|loopback))$/;
/** Google, AWS and clouds that follow them, with their search domains; Tencent. */
const METADATA_NAME =
  /^(?:(?:.+\.)?(?:metadata|instance-data)(?:\..+)?\.internal|metadata(?:\.goog)?|instance-data|metadata\.tencentyun\.com)$/;

/** For a name that means the same everywhere, whether or not a resolver knows it; undefined: only a lookup shows it. */
export function namedAddresses(host: string): LocalName | undefined {
  const name = host.toLowerCase().replace(/\.+$/, '');
  if (LOOPBACK_NAME.test(name)) return THIS_MACHINE;
  return METADATA_NAME.test(name) ? METADATA : undefined;
}
