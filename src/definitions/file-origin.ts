import type { Entry } from './read-definitions-file.ts';

/** The actor in the audit log, and the author of what the file defines. */
export const BY = 'LISTENERS_FILE';

/** Of topics and groups, by name. Those that were removed from the file are kept: a missing line deletes no data. */
export interface Changes {
  readonly created: string[];
  readonly changed: string[];
  readonly kept: string[];
}

interface Defined {
  readonly origin: string;
  readonly updated_by: string;
}

/** It was created by API, or changed by API since it was removed from the file. */
export function belongsToApi({ origin, updated_by }: Defined): boolean {
  return origin !== 'file' && updated_by !== BY;
}

export const CREATED_BY_API = 'was created by API; rename this one, or delete that one first';

/** What the file no longer has is released, not deleted: a missing line deletes no data. */
export async function releaseOthers(
  entries: readonly { readonly name: string }[],
  ofFile: readonly { readonly name: string }[],
  changes: Changes,
  release: (name: string) => Promise<unknown>,
): Promise<void> {
  const wanted = new Set(entries.map(({ name }) => name));
  for (const { name } of ofFile) {
    if (wanted.has(name)) continue;
    await release(name);
    changes.kept.push(name);
  }
}

/** Puts an entry, unless no field has changed; undefined: it is new. `put` gets the reason for the audit log. */
export async function putChanged(
  name: string,
  changed: readonly string[] | undefined,
  changes: Changes,
  put: (reason: string) => Promise<unknown>,
): Promise<void> {
  if (changed?.length === 0) return;
  await put(changed ? `changed: ${changed.join(', ')}` : 'created');
  changes[changed ? 'changed' : 'created'].push(name);
}

/** What a definition of the file is put with. */
export function definedBy<Definition>({ name, definition }: Entry<Definition>) {
  return { name, definition, origin: 'file', by: BY } as const;
}
