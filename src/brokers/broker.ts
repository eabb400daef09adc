import type { BrokerCredentials, KafkaTarget, NatsTarget, RabbitTarget } from './broker-definition.ts';

export const BROKER_MODES = ['nats', 'rabbitmq', 'kafka'] as const;
export type BrokerMode = (typeof BROKER_MODES)[number];

/** Where a listener's deliveries are published, and as whom. */
export type Broker = Readonly<
  ({ mode: 'nats' } & NatsTarget) | ({ mode: 'rabbitmq' } & RabbitTarget) | ({ mode: 'kafka' } & KafkaTarget)
> & {
  readonly credentials: BrokerCredentials;
};

export type BrokerOf<Mode extends BrokerMode> = Extract<Broker, { mode: Mode }>;

/** The part of a definition that names a broker. */
export interface BrokerFields {
  readonly nats?: NatsTarget;
  readonly rabbitmq?: RabbitTarget;
  readonly kafka?: KafkaTarget;
}

export function isBrokerMode(mode: unknown): mode is BrokerMode {
  return (BROKER_MODES as readonly unknown[]).includes(mode);
}

/** Undefined: the mode is not that of a broker. */
export function brokerOf(
  mode: string,
  { nats, rabbitmq, kafka }: BrokerFields,
  credentials: BrokerCredentials = {},
): Broker | undefined {
  if (mode === 'nats' && nats) return { mode, ...nats, credentials };
  if (mode === 'rabbitmq' && rabbitmq) return { mode, ...rabbitmq, credentials };
  if (mode === 'kafka' && kafka) return { mode, ...kafka, credentials };
  return undefined;
}
