import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { type Binding, isBound } from '../../config/key-binding.ts';

/** A token is sk_<id>_<secret>: the id identifies the key, the secret authenticates it. Only a hash of the secret is stored. */
export interface TokenParts {
  readonly id: string;
  readonly secret: string;
}

export function tokenParts(token: string): TokenParts | undefined {
  const match = /^sk_([A-Za-z0-9]{1,32})_([\w-]{8,200})$/.exec(token);
  return match ? { id: match[1]!, secret: match[2]! } : undefined;
}

export function newToken(): TokenParts & { token: string } {
  const id = randomBytes(6).toString('hex');
  const secret = randomBytes(24).toString('base64url');
  return { id, secret, token: `sk_${id}_${secret}` };
}

/**
 * Plain SHA-256: the secret has 192 random bits, so key stretching would add nothing. The binding of a key is part of the
 * hash: a version of the service without bindings rejects the key instead of granting it everything.
 */
export function hashOf(secret: string, binding: Binding): Buffer {
  const { sources = null, keys = null } = binding;
  return hash('sha256', isBound(binding) ? JSON.stringify([secret, sources, keys]) : secret, 'buffer');
}

export function isSecretOf(secret: string, known: Binding & { readonly hash: Buffer }): boolean {
  return timingSafeEqual(hashOf(secret, known), known.hash);
}
