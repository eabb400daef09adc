import { createCipheriv, randomBytes } from 'node:crypto';

/** A sealed box as the previous version wrote it, with a master key `id=<base64>`: it holds secrets and headers; the URL was stored in plain text. */
export function sealedByPreviousVersion(name: string, content: unknown, masterKey: string): string {
  const [id = '', base64 = ''] = masterKey.split(/=(.*)/s);
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', Buffer.from(base64, 'base64'), nonce, { authTagLength: 16 });
  cipher.setAAD(Buffer.from(JSON.stringify(['v1', id, `listener ${name}`])));
  const inner = [nonce, cipher.update(JSON.stringify(content), 'utf8'), cipher.final(), cipher.getAuthTag()];
  return `v1:${id}:${Buffer.concat(inner).toString('base64url')}`;
}
