import type { BrokerMode } from './broker.ts';

export interface ServerAddress {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
}

interface Schemes {
  readonly plain: string;
  readonly tls: string;
  readonly plainPort: number;
  readonly tlsPort: number;
}

const SCHEMES: Readonly<Record<BrokerMode, Schemes>> = {
  nats: { plain: 'nats', tls: 'tls', plainPort: 4222, tlsPort: 4222 },
  rabbitmq: { plain: 'amqp', tls: 'amqps', plainPort: 5672, tlsPort: 5671 },
  kafka: { plain: 'kafka', tls: 'kafka+ssl', plainPort: 9092, tlsPort: 9093 },
};
const FORM = /^([a-z+]+):\/\/(\[[0-9a-fA-F:.]+\]|[^\s/?#@:[\]]+)(?::(\d{1,5}))?\/?$/;

/** A string says what is wrong with it. */
export function serverAddress(text: unknown, mode: BrokerMode): ServerAddress | string {
  const { plain, tls, plainPort, tlsPort } = SCHEMES[mode];
  const form = `must be ${plain}://host:port or ${tls}://host:port`;
  if (typeof text !== 'string' || text.length > 300) return form;
  if (text.includes('@')) return 'must not contain credentials; they go into "credentials"';
  const [, scheme, name, digits] = FORM.exec(text) ?? [];
  if (scheme !== plain && scheme !== tls) return form;
  // The URL parser knows hosts of http in every notation of an address, those of other schemes it leaves as they are.
  if (!URL.canParse(`http://${name}`)) return form;
  const host = new URL(`http://${name}`).hostname.replace(/^\[|\]$/g, '');
  const port = Number(digits ?? (scheme === tls ? tlsPort : plainPort));
  if (port < 1 || port > 65_535) return 'must have a port from 1 to 65535';
  return { host, port, tls: scheme === tls };
}

/** Of a definition that was checked before. */
export function checkedAddress(text: string, mode: BrokerMode): ServerAddress {
  const address = serverAddress(text, mode);
  if (typeof address === 'string') throw new Error(`a server of a ${mode} listener ${address}`);
  return address;
}
