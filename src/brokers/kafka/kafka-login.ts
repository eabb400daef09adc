import {
  AuthenticationError,
  type SASLCustomAuthenticator,
  type SASLOptions,
  saslPlain,
  saslScramSha,
} from '@platformatic/kafka';
import type { BrokerOf } from '../broker.ts';

type Api = Parameters<SASLCustomAuthenticator>[2];

const MECHANISMS = {
  plain: 'PLAIN',
  'scram-sha-256': 'SCRAM-SHA-256',
  'scram-sha-512': 'SCRAM-SHA-512',
} as const;

/** Undefined: the definition has no username. */
export function loginOf({
  credentials,
  mechanism = 'scram-sha-512',
}: BrokerOf<'kafka'>): SASLOptions | undefined {
  const { username, password = '' } = credentials;
  return username ? { mechanism: MECHANISMS[mechanism], username, password, authenticate } : undefined;
}

/** The client's own login, which would throw, where nobody can catch it, on a reply that it cannot read. */
const authenticate: SASLCustomAuthenticator = (
  mechanism,
  connection,
  api,
  username = '',
  password = '',
  _token,
  callback,
) => {
  const guarded = ((server: Parameters<Api>[0], bytes: Buffer, next: Parameters<Api>[2]) =>
    api(server, bytes, (error, response) => {
      try {
        next?.(error, response);
      } catch (fault) {
        const cause = fault as Error;
        callback(new AuthenticationError(`its reply was not understood: ${cause.message}`, { cause }));
      }
    })) as Api;
  if (mechanism === 'PLAIN') saslPlain.authenticate(guarded, connection, username, password, callback);
  else {
    const algorithm = mechanism === 'SCRAM-SHA-256' ? 'SHA-256' : 'SHA-512';
    saslScramSha.authenticate(
      guarded,
      connection,
      algorithm,
      username,
      password,
      saslScramSha.defaultCrypto,
      callback,
    );
  }
};
