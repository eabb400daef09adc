import type { Listener, ListenerMode } from '../../api-types.ts';

const BROKERS: readonly ListenerMode[] = ['nats', 'rabbitmq', 'kafka'];

/** A field of the definition as a form shows it. */
export interface Field {
  readonly name: string;
  readonly label: string;
  readonly kind: 'text' | 'lines' | 'number' | 'choice' | 'json';
  readonly choices?: readonly string[];
  readonly onlyFor?: readonly ListenerMode[];
  /** The service shows it to nobody. */
  readonly isNeverShown?: boolean;
  /** Cannot be changed later. */
  readonly isFixed?: boolean;
}

export const FIELDS: readonly Field[] = [
  { name: 'mode', label: 'Mode', kind: 'choice', choices: ['webhook', 'pull', ...BROKERS] },
  { name: 'url', label: 'URL', kind: 'text', onlyFor: ['webhook'] },
  {
    name: 'nats',
    label: 'NATS, as JSON: {"servers": ["nats://host:4222"], "subject": "orders.{key}", "stream": "ORDERS"}',
    kind: 'json',
    onlyFor: ['nats'],
  },
  {
    name: 'rabbitmq',
    label:
      'RabbitMQ, as JSON: {"servers": ["amqp://host:5672"], "exchange": "orders", "routingKey": "{key}"}',
    kind: 'json',
    onlyFor: ['rabbitmq'],
  },
  {
    name: 'kafka',
    label: 'Kafka, as JSON: {"servers": ["kafka://host:9092"], "topic": "orders"}',
    kind: 'json',
    onlyFor: ['kafka'],
  },
  {
    name: 'credentials',
    label: 'Credentials, as JSON: {"username": "…", "password": "…"}; empty: they stay as they are',
    kind: 'json',
    onlyFor: BROKERS,
    isNeverShown: true,
  },
  { name: 'types', label: 'Types, one per line (* stands for any characters)', kind: 'lines' },
  { name: 'ordered', label: 'Order per key', kind: 'choice', choices: ['true', 'false'] },
  { name: 'onDead', label: 'After a dead letter its key', kind: 'choice', choices: ['skip', 'hold'] },
  { name: 'timeout', label: 'Timeout', kind: 'text', onlyFor: ['webhook', ...BROKERS] },
  { name: 'retrySchedule', label: 'Waits before retries, one per line', kind: 'lines' },
  { name: 'lease', label: 'Lease', kind: 'text', onlyFor: ['pull'] },
  { name: 'attempts', label: 'Attempts', kind: 'number', onlyFor: ['pull'] },
  { name: 'maxInFlight', label: 'In flight, at most', kind: 'number', onlyFor: ['pull'] },
  { name: 'lanes', label: 'Lanes (cannot be changed later)', kind: 'number', isFixed: true },
  { name: 'rateLimit', label: 'Rate limit, as JSON: {"perSecond": 30}', kind: 'json' },
  {
    name: 'terminalStatuses',
    label: 'Statuses that are not retried, as JSON: [400, 403]',
    kind: 'json',
    onlyFor: ['webhook'],
  },
  {
    name: 'disableAfter',
    label: 'Disable after, as JSON: {"status": 410, "times": 3}',
    kind: 'json',
    onlyFor: ['webhook'],
  },
  { name: 'headers', label: 'Headers, as JSON: {"X-Tenant": "blue"}', kind: 'json', onlyFor: ['webhook'] },
  {
    name: 'format',
    label: 'Format',
    kind: 'choice',
    choices: ['standard', 'cloudevents'],
    onlyFor: ['webhook'],
  },
];

type Texts = Readonly<Record<string, string>>;

/** The texts of the form for a listener; those of a new one are its defaults. */
export function textsOf(listener: Listener | undefined): Texts {
  const values = (listener ?? {
    mode: 'webhook',
    ordered: true,
    onDead: 'skip',
    format: 'standard',
  }) as Record<string, unknown>;
  return Object.fromEntries(
    FIELDS.map(({ name, kind, isNeverShown }) => [name, isNeverShown ? '' : textOf(values[name], kind)]),
  );
}

function textOf(value: unknown, kind: Field['kind']): string {
  if (value === undefined || value === null) return '';
  if (kind === 'lines') return (value as string[]).join('\n');
  return kind === 'json' ? JSON.stringify(value) : String(value);
}

export function isFor(mode: string, { onlyFor }: Field): boolean {
  return !onlyFor || onlyFor.some((one) => one === mode);
}

/** Where its messages go, in words. */
export function destinationOf({ mode, url, nats, rabbitmq, kafka }: Listener): string {
  if (mode === 'pull') return 'A queue that consumers pull from';
  if (rabbitmq) return `${mode}: exchange "${rabbitmq.exchange ?? ''}" at ${rabbitmq.servers.join(', ')}`;
  if (kafka) return `${mode}: topic ${kafka.topic} at ${kafka.servers.join(', ')}`;
  return nats ? `${mode}: ${nats.subject} at ${nats.servers.join(', ')}` : (url ?? '');
}

/** The definition to send. What is empty is left out and gets its default; what is no JSON goes as text, and the service says so. */
export function definitionOf(texts: Texts): Record<string, unknown> {
  const mode = texts.mode || 'webhook';
  const given = FIELDS.filter((field) => isFor(mode, field) && texts[field.name]?.trim());
  return Object.fromEntries(given.map(({ name, kind }) => [name, parsedAs(texts[name]!.trim(), kind, name)]));
}

function parsedAs(text: string, kind: Field['kind'], name: string): unknown {
  if (name === 'ordered') return text === 'true';
  if (kind === 'lines')
    return text
      .split('\n')
      .map((line) => line.trim())
      .filter(Boolean);
  if (kind === 'number') return Number.isNaN(Number(text)) ? text : Number(text);
  return kind === 'json' ? parsed(text) : text;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
