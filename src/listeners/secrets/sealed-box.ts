import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

export interface MasterKey {
  readonly id: string;
  /** 32 bytes. */
  readonly bytes: Buffer;
}

export type Opening = { readonly text: string } | { readonly refused: string };

const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** What a box contains. A version of the service that does not know the form leaves such a listener to other replicas. */
const VERSIONS = { listener: 2, broker: 3 } as const;
const FORM = /^v([123]):([A-Za-z0-9][\w-]{0,31}):([\w-]+)$/;

/**
 * AES-256-GCM, written as `v<version>:<key id>:<nonce, ciphertext and tag in base64url>`. `bound` names the row that it is for and is
 * authenticated with it: a box that was copied to another row cannot be opened.
 */
export function seal(
  text: string,
  bound: string,
  key: MasterKey,
  what: keyof typeof VERSIONS = 'listener',
): string {
  const version = VERSIONS[what];
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key.bytes, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(additional(version, key.id, bound));
  const bytes = Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
  return `v${version}:${key.id}:${bytes.toString('base64url')}`;
}

/** The id of the key that a box was sealed with. */
export function keyIdOf(sealed: string): string | undefined {
  return FORM.exec(sealed)?.[2];
}

/** Sealed by the previous version. */
export function isOldForm(sealed: string): boolean {
  return sealed.startsWith('v1:');
}

export function open(sealed: string, bound: string, key: MasterKey): Opening {
  const [, version, , text = ''] = FORM.exec(sealed) ?? [];
  const bytes = Buffer.from(text, 'base64url');
  if (bytes.length < NONCE_BYTES + TAG_BYTES) return { refused: 'it is not complete' };
  const decipher = createDecipheriv(CIPHER, key.bytes, bytes.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(additional(Number(version), key.id, bound));
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  try {
    const inner = decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES));
    return { text: Buffer.concat([inner, decipher.final()]).toString('utf8') };
  } catch {
    return { refused: `it was changed, is of another listener, or key ${key.id} is another one now` };
  }
}

function additional(version: number, keyId: string, bound: string): Buffer {
  return Buffer.from(JSON.stringify([`v${version}`, keyId, bound]));
}
