import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { isSecret } from '../listeners/secrets/signing-secrets.ts';
import { isMapping, YamlLines } from './yaml-lines.ts';

export type GivenSecret =
  | { readonly secret: string | undefined }
  | { readonly field: string; readonly fault: string };

/** Its errors never quote what it read. */
export async function secretOf(secret: unknown, secretFile: unknown, folder: string): Promise<GivenSecret> {
  if (secret !== undefined && secretFile !== undefined)
    return { field: 'secretFile', fault: 'cannot be combined with "secret"' };
  const field = secret === undefined ? 'secretFile' : 'secret';
  let text = secret;
  if (secretFile !== undefined) {
    if (typeof secretFile !== 'string' || secretFile === '')
      return { field, fault: 'must be the path of a file' };
    try {
      text = (await readFile(resolve(folder, secretFile), 'utf8')).trim();
    } catch (error) {
      return { field, fault: `cannot be read (${(error as NodeJS.ErrnoException).code})` };
    }
  }
  if (text === undefined) return { secret: undefined };
  if (typeof text === 'string' && isSecret(text)) return { secret: text };
  const what = secretFile === undefined ? 'must be' : 'must contain';
  return { field, fault: `${what} "whsec_" and 24 to 64 bytes in base64` };
}

/** Credentials of a broker in a file of their own, in YAML or JSON. Its errors never quote what it read. */
export async function credentialsOf(
  credentials: unknown,
  file: unknown,
  folder: string,
): Promise<{ credentials?: { credentials: unknown }; fault?: string }> {
  if (file === undefined) return {};
  if (credentials !== undefined) return { fault: 'cannot be combined with "credentials"' };
  if (typeof file !== 'string' || file === '') return { fault: 'must be the path of a file' };
  try {
    const yaml = YamlLines.parse(await readFile(resolve(folder, file), 'utf8'));
    if (yaml.faults.length > 0 || !isMapping(yaml.value)) return { fault: 'must contain a mapping' };
    return { credentials: { credentials: yaml.value } };
  } catch (error) {
    return { fault: `cannot be read (${(error as NodeJS.ErrnoException).code})` };
  }
}
