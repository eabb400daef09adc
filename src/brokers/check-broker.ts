import { pointerTo } from '../http/pointer.ts';
import type { FieldError } from '../http/problems.ts';
import type { Verdict } from '../webhooks/egress-guard.ts';
import type { BrokerMode } from './broker.ts';
import { missingClient } from './kinds.ts';
import { serverAddress } from './server-address.ts';
import { subjectFault, templateFault } from './template.ts';

/** Whether a connection to this server may be made. */
export type ServerCheck = (host: string, port: number) => Promise<Verdict>;

const HIDDEN = '(hidden)';
/** Which credentials go together, by mode. */
const LOGINS: Readonly<Record<BrokerMode, readonly (readonly string[])[]>> = {
  nats: [['username', 'password'], ['token'], ['creds']],
  rabbitmq: [['username', 'password']],
};
const CERTIFICATE = ['certificate', 'privateKey'];

/** What is wrong with the part of a definition that names a broker; its shape was checked before. */
export async function brokerFaults(
  mode: BrokerMode,
  value: Record<string, unknown>,
  checkServer: ServerCheck,
): Promise<FieldError[]> {
  const missing = await missingClient(mode);
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
  const faults = await Promise.all(
    servers.slice(0, 10).map(async (server, index) => {
      const detail = await serverFault(mode, server, checkServer);
      return detail === undefined ? [] : [{ pointer: `/${mode}/servers/${index}`, detail }];
    }),
  );
  return faults.flat();
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
  const [field, check] =
    mode === 'nats' ? (['subject', subjectFault] as const) : (['routingKey', templateFault] as const);
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
