import { pointerTo } from '../http/pointer.ts';
import type { FieldError } from '../http/problems.ts';
import type { Verdict } from '../webhooks/egress-guard.ts';
import type { BrokerMode } from './broker.ts';
import { kindOf, missingClient } from './kinds.ts';
import { serverAddress } from './server-address.ts';
import { subjectFault, templateFault, topicFault } from './template.ts';

/** Whether a connection to this server may be made. */
export type ServerCheck = (host: string, port: number) => Promise<Verdict>;

const HIDDEN = '(hidden)';
const MIXED = 'must be all kafka:// or all kafka+ssl://';
/** Which credentials go together, by mode. */
const LOGINS: Readonly<Record<BrokerMode, readonly (readonly string[])[]>> = {
  nats: [['username', 'password'], ['token'], ['creds']],
  rabbitmq: [['username', 'password']],
  kafka: [['username', 'password']],
};
const CERTIFICATE = ['certificate', 'privateKey'];

/** The field that says where messages go, by mode. */
const PLACES: Readonly<Record<BrokerMode, readonly [string, (text: string) => string | undefined]>> = {
  nats: ['subject', subjectFault],
  rabbitmq: ['routingKey', templateFault],
  kafka: ['topic', topicFault],
};

/** What is wrong with the part of a definition that names a broker; its shape was checked before. */
export async function brokerFaults(
  mode: BrokerMode,
  value: Record<string, unknown>,
  checkServer: ServerCheck,
): Promise<FieldError[]> {
  const missing = await missingClient(() => kindOf(mode));
  const target = value[mode];
  return [
    ...(missing === undefined ? [] : [{ pointer: '/mode', detail: missing }]),
    ...(await connectionFaults(mode, value, checkServer)),
    ...(isObject(target) ? placeFaults(mode, target) : []),
  ];
}

/** The part of it that a source has, too. */
export async function connectionFaults(
  mode: BrokerMode,
  value: Record<string, unknown>,
  checkServer: ServerCheck,
): Promise<FieldError[]> {
  const target = value[mode];
  return [
    ...(isObject(target) ? await serverFaults(mode, target.servers, checkServer) : []),
    ...credentialFaults(mode, value.credentials),
  ];
}

async function serverFaults(
  mode: BrokerMode,
  servers: unknown,
  checkServer: ServerCheck,
): Promise<FieldError[]> {
  if (!Array.isArray(servers)) return [];
  const mixed = mode === 'kafka' && isMixed(servers);
  const faults = await Promise.all(
    servers.slice(0, 10).map(async (server, index) => {
      const detail = await serverFault(mode, server, checkServer);
      return detail === undefined ? [] : [{ pointer: `/${mode}/servers/${index}`, detail }];
    }),
  );
  return [...faults.flat(), ...(mixed ? [{ pointer: '/kafka/servers', detail: MIXED }] : [])];
}

/** The addresses that a cluster names have no scheme. */
function isMixed(servers: readonly unknown[]): boolean {
  return new Set(servers.map((server) => String(server).split(':')[0])).size > 1;
}

async function serverFault(
  mode: BrokerMode,
  server: unknown,
  checkServer: ServerCheck,
): Promise<string | undefined> {
  const address = serverAddress(server, mode);
  if (typeof address === 'string') return address;
  const verdict = await checkServer(address.host, address.port);
  return verdict.kind === 'refused' ? `is refused: ${verdict.reason}` : undefined;
}

function placeFaults(mode: BrokerMode, target: Record<string, unknown>): FieldError[] {
  const [field, check] = PLACES[mode];
  const template = target[field];
  const fault = typeof template === 'string' && template !== '' ? check(template) : undefined;
  return fault === undefined ? [] : [{ pointer: `/${mode}/${field}`, detail: fault }];
}

function credentialFaults(mode: BrokerMode, credentials: unknown): FieldError[] {
  if (!isObject(credentials)) return [];
  const names = Object.keys(credentials).filter((name) => credentials[name] !== undefined);
  const fault = (name: string, detail: string) => [{ pointer: pointerTo('/credentials', name), detail }];
  const hidden = names.filter((name) => credentials[name] === HIDDEN);
  const given = names.filter((name) => !CERTIFICATE.includes(name));
  const login = LOGINS[mode].find((one) => given.every((name) => one.includes(name)));
  return [
    ...hidden.flatMap((name) => fault(name, 'is hidden; leave "credentials" out to keep what it has')),
    ...(login ? [] : [{ pointer: '/credentials', detail: `must be ${loginsOf(mode)}` }]),
    ...missingPartner(names, 'password', 'username', fault),
    ...missingPartner(names, 'certificate', 'privateKey', fault),
    ...missingPartner(names, 'privateKey', 'certificate', fault),
  ];
}

function missingPartner(
  names: readonly string[],
  given: string,
  needed: string,
  fault: (name: string, detail: string) => FieldError[],
): FieldError[] {
  return names.includes(given) && !names.includes(needed) ? fault(needed, 'is required') : [];
}

function loginsOf(mode: BrokerMode): string {
  return LOGINS[mode].map((names) => names.join(' and ')).join(', or ');
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
