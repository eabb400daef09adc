import type { BrokerMode } from './broker.ts';
import type { SinkKind } from './sink.ts';

/** Loaded when the first listener of the mode is defined or sent to: most installations need none of the clients. */
const LOADERS: Readonly<Record<BrokerMode, () => Promise<SinkKind>>> = {
  nats: async () => (await import('./nats/nats-sink.ts')).NATS_SINKS as SinkKind,
  rabbitmq: async () => (await import('./rabbitmq/rabbit-sink.ts')).RABBIT_SINKS as SinkKind,
  kafka: async () => (await import('./kafka/kafka-sink.ts')).KAFKA_SINKS as SinkKind,
};

export function kindOf(mode: BrokerMode): Promise<SinkKind> {
  return LOADERS[mode]();
}

/** Why what this loads cannot be used here; undefined: it can. */
export async function missingClient(load: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await load();
    return undefined;
  } catch (error) {
    const name = missingPackage(error);
    if (name === undefined) throw error;
    return `needs the package ${name}, which is not installed: npm install ${name}`;
  }
}

/** The name of a package that an import did not find; undefined: it is another error. */
export function missingPackage(error: unknown): string | undefined {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') return undefined;
  return /package '([^']+)'/i.exec(message)?.[1] ?? /module '((?:@[^/']+\/)?[^/']+)/i.exec(message)?.[1];
}
