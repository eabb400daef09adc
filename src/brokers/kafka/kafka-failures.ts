import { types } from 'node:util';
import {
  AuthenticationError,
  NetworkError,
  ProtocolError,
  TimeoutError,
  UserError,
} from '@platformatic/kafka';
import { type CallFailure, failureOf } from '../../webhooks/call-failures.ts';

type Reason = CallFailure['reason'];

/** By Kafka's names of errors; all others mean that the cluster is not as it must be. */
const BY_ID: Readonly<Record<string, Reason>> = {
  SASL_AUTHENTICATION_FAILED: 'auth',
  UNSUPPORTED_SASL_MECHANISM: 'auth',
  ILLEGAL_SASL_STATE: 'auth',
  TOPIC_AUTHORIZATION_FAILED: 'auth',
  CLUSTER_AUTHORIZATION_FAILED: 'auth',
  REQUEST_TIMED_OUT: 'timeout',
  MESSAGE_TOO_LARGE: 'rejected',
  RECORD_LIST_TOO_LARGE: 'rejected',
  INVALID_RECORD: 'rejected',
  INVALID_TIMESTAMP: 'rejected',
  CORRUPT_MESSAGE: 'rejected',
};

const NO_TOPIC: CallFailure = {
  reason: 'setup',
  detail: 'the topic does not exist: create it, or correct "topic"',
};

export function kafkaFailure(error: unknown): CallFailure | undefined {
  const errors = errorsWithin(error);
  const protocol = errors.find((one): one is ProtocolError => one instanceof ProtocolError);
  if (protocol) return protocolFailure(protocol as ProtocolFields);
  const auth = errors.find((one) => one instanceof AuthenticationError);
  if (auth) return { reason: 'auth', detail: `the server refused: ${auth.message}` };
  if (errors.some((one) => one instanceof UserError && /^Unknown topic/.test(one.message))) return NO_TOPIC;
  // Errors of the socket are below those of the client.
  const ofSocket = errors.find((one) => 'code' in one && !String(one.code).startsWith('PLT_KFK_'));
  if (ofSocket) return failureOf(ofSocket, true);
  if (isTimeout(error)) return { reason: 'timeout', detail: 'no acknowledgement in time' };
  const ofParser = errors.find((one) => !('code' in one));
  if (ofParser) return { reason: 'protocol', detail: `a response was not understood: ${ofParser.message}` };
  if (errors.some((one) => one instanceof NetworkError))
    return { reason: 'reset', detail: 'the connection was closed' };
  const [first] = errors;
  return first && 'code' in first ? { reason: 'protocol', detail: first.message } : undefined;
}

interface ProtocolFields extends ProtocolError {
  readonly apiId: string;
  readonly serverErrorMessage: string | null;
}

function protocolFailure({ apiId, message, serverErrorMessage }: ProtocolFields): CallFailure {
  if (apiId === 'UNKNOWN_TOPIC_OR_PARTITION') return NO_TOPIC;
  const reason = BY_ID[apiId] ?? 'setup';
  const detail = `${serverErrorMessage ?? message} (Kafka ${apiId})`;
  return { reason, detail: reason === 'auth' ? `the server refused: ${detail}` : detail };
}

/** The broker does not take this message, whatever its state. */
export function isOfMessage(error: ProtocolError): boolean {
  return BY_ID[(error as ProtocolFields).apiId] === 'rejected';
}

export function isTimeout(error: unknown): boolean {
  return errorsWithin(error).some((one) => one instanceof TimeoutError);
}

/** The error, its causes, and those that it collects. */
export function errorsWithin(error: unknown, depth = 0): readonly Error[] {
  if (!types.isNativeError(error) || depth > 6) return [];
  const { errors = [] } = error as { errors?: readonly unknown[] };
  return [error, ...[error.cause, ...errors].flatMap((one) => errorsWithin(one, depth + 1))];
}
