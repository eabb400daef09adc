import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto';
import { type KafkaReader, wire } from './kafka-wire.ts';

const [UNSUPPORTED_MECHANISM, AUTHENTICATION_FAILED] = [33, 58];
const ITERATIONS = 4_096;

export interface KafkaLogin {
  readonly mechanism: string;
  readonly username: string;
  readonly password: string;
  /** What it replies to the first message, whatever that is. */
  readonly reply?: string;
}

/** The server's side of SASL: PLAIN (RFC 4616) and SCRAM (RFC 5802). */
export class KafkaSession {
  isLoggedIn: boolean;
  private readonly salt = randomBytes(16);
  private firstMessages: string | undefined;
  private nonce = '';

  constructor(private readonly login: KafkaLogin | undefined) {
    this.isLoggedIn = login === undefined;
  }

  handshake(request: KafkaReader): Buffer {
    const mechanism = this.login?.mechanism ?? 'PLAIN';
    const error = request.text() === mechanism ? 0 : UNSUPPORTED_MECHANISM;
    return Buffer.concat([wire.int16(error), wire.list([wire.text(mechanism)])]);
  }

  authenticate(request: KafkaReader): Buffer {
    const message = request.compactBytes()!.toString();
    const asked = this.login?.mechanism === 'PLAIN' ? this.plain(message) : this.scram(message);
    const reply = this.login?.reply ?? asked;
    const fault = reply === undefined ? 'Authentication failed: Invalid username or password' : null;
    return Buffer.concat([
      wire.int16(fault === null ? 0 : AUTHENTICATION_FAILED),
      wire.compactText(fault),
      wire.compactBytes(Buffer.from(reply ?? '')),
      wire.int64(0n),
      wire.noTags,
    ]);
  }

  private plain(message: string): string | undefined {
    const [, username, password] = message.split('\0');
    this.isLoggedIn = username === this.login?.username && password === this.login?.password;
    return this.isLoggedIn ? '' : undefined;
  }

  private scram(message: string): string | undefined {
    const { mechanism, password } = this.login!;
    const hash = mechanism === 'SCRAM-SHA-256' ? 'sha256' : 'sha512';
    if (this.firstMessages === undefined) return this.scramFirst(message);
    const salted = pbkdf2Sync(password, this.salt, ITERATIONS, hash === 'sha256' ? 32 : 64, hash);
    const hmac = (key: Buffer, text: string) => createHmac(hash, key).update(text).digest();
    const [, bare = '', proof = ''] = /^(.*),p=(.*)$/.exec(message) ?? [];
    const authenticated = `${this.firstMessages},${bare}`;
    const stored = createHash(hash).update(hmac(salted, 'Client Key')).digest();
    const signature = hmac(stored, authenticated);
    const key = Buffer.from(proof, 'base64').map((byte, at) => byte ^ signature[at]!);
    if (!createHash(hash).update(key).digest().equals(stored) || !bare.includes(this.nonce)) return undefined;
    this.isLoggedIn = true;
    return `v=${hmac(hmac(salted, 'Server Key'), authenticated).toString('base64')}`;
  }

  private scramFirst(message: string): string | undefined {
    const bare = message.slice('n,,'.length);
    const [, username, nonce] = /^n=([^,]*),r=(.*)$/.exec(bare) ?? [];
    if (username !== this.login?.username) return undefined;
    this.nonce = `${nonce}${randomBytes(12).toString('hex')}`;
    const reply = `r=${this.nonce},s=${this.salt.toString('base64')},i=${ITERATIONS}`;
    this.firstMessages = `${bare},${reply}`;
    return reply;
  }
}
