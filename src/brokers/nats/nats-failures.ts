import { JetStreamApiError } from '@nats-io/jetstream';
import { errors } from '@nats-io/transport-node';
import type { CallFailure } from '../../webhooks/call-failures.ts';

const STREAM_NOT_FOUND = 10_059;
const OTHER_STREAM = 10_060;
const NO_JETSTREAM = 10_039;
const SETUP_CODES = [OTHER_STREAM, NO_JETSTREAM];
const NO_STREAM: CallFailure = {
  reason: 'setup',
  detail: 'no stream takes this subject: create the stream, or correct "subject"',
};

const AUTH = [
  errors.AuthorizationError,
  errors.UserAuthenticationExpiredError,
  errors.PermissionViolationError,
];
const CLOSED = [errors.ClosedConnectionError, errors.DrainingConnectionError];

export function natsFailure(error: unknown): CallFailure | undefined {
  const chain = causesOf(error);
  const is = (types: readonly (new (...any: never[]) => Error)[]) =>
    chain.find((one) => types.some((type) => one instanceof type));
  const auth = is(AUTH);
  if (auth) return { reason: 'auth', detail: `the server refused: ${auth.message}` };
  if (is([errors.NoRespondersError])) return NO_STREAM;
  const api = is([JetStreamApiError]);
  if (api) return apiFailure(api as JetStreamApiError);
  if (is([errors.TimeoutError])) return { reason: 'timeout', detail: 'no acknowledgement in time' };
  const invalid = is([errors.InvalidArgumentError, errors.InvalidSubjectError]);
  if (invalid) return { reason: 'rejected', detail: invalid.message };
  if (chain.some(({ message }) => message === 'connection refused'))
    return { reason: 'refused', detail: 'ECONNREFUSED' };
  if (chain.some((one) => 'code' in one && typeof one.code === 'string')) return undefined;
  if (
    is(CLOSED) ||
    chain.some(({ message }) => /connection (closed|disconnected)|closed connection/i.test(message))
  )
    return { reason: 'reset', detail: 'the connection was closed' };
  if (is([errors.ConnectionError, errors.ProtocolError]))
    return { reason: 'protocol', detail: chain[0]!.message };
  return undefined;
}

/** 5xx: the stream cannot store now, for example because it is full; otherwise it does not take this message. */
function apiFailure(error: JetStreamApiError): CallFailure {
  const { code, status, message } = error;
  if (message === 'no stream matches subject') return NO_STREAM;
  if (code === STREAM_NOT_FOUND)
    return { reason: 'setup', detail: 'the stream does not exist: create it, or correct "stream"' };
  if (SETUP_CODES.includes(code)) return { reason: 'setup', detail: `${message} (JetStream ${code})` };
  return { reason: status >= 500 ? 'setup' : 'rejected', detail: `${message} (JetStream ${code})` };
}

function causesOf(error: unknown): Error[] {
  const chain: Error[] = [];
  for (let one = error; one instanceof Error && chain.length < 5; one = one.cause) chain.push(one);
  return chain;
}
