import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { isName, NAME_FORM } from '../../http/names.ts';
import { type Bounds, checkDefinition } from '../check-definition.ts';
import type { ListenerDefinition } from '../listener-definition.ts';
import { isSecret } from '../secrets/signing-secrets.ts';
import { YamlLines } from './yaml-lines.ts';

/** One entry of LISTENERS_FILE. */
export interface ListenerEntry {
  readonly name: string;
  readonly definition: ListenerDefinition;
  /** Absent: the service generates one. */
  readonly secret: string | undefined;
  readonly line: number;
}

export type FileContent =
  | { readonly kind: 'entries'; readonly entries: readonly ListenerEntry[] }
  /** One line each: the file, the line, what is wrong. */
  | { readonly kind: 'invalid'; readonly faults: readonly string[] };

type Fault = { readonly path: readonly (string | number)[]; readonly detail: string };

/** Reads and checks the whole file; reports all errors together. */
export async function readListenersFile(path: string, bounds: Bounds): Promise<FileContent> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return { kind: 'invalid', faults: [`LISTENERS_FILE=${path} cannot be read (${code})`] };
  }
  const yaml = YamlLines.parse(text);
  if (yaml.faults.length) {
    return { kind: 'invalid', faults: yaml.faults.map(({ line, detail }) => `${path}:${line}: ${detail}`) };
  }
  const faults: Fault[] = shapeFaults(yaml.value);
  const items = listOf(yaml.value);
  const entries = await Promise.all(
    items.map((item, index) => readEntry(item, { index, yaml, folder: dirname(path), bounds, faults })),
  );
  faults.push(...repeatedNames(items));
  if (faults.length === 0)
    return { kind: 'entries', entries: entries.filter((entry) => entry !== undefined) };
  const lines = faults.map((fault) => ({ ...fault, line: yaml.lineOf(fault.path) }));
  lines.sort((a, b) => a.line - b.line);
  return {
    kind: 'invalid',
    faults: lines.map(({ line, path: where, detail }) => `${path}:${line}: ${placeOf(where)} ${detail}`),
  };
}

function shapeFaults(value: unknown): Fault[] {
  if (!isMapping(value)) return [{ path: [], detail: 'must have the list "listeners"' }];
  const unknown = Object.keys(value).filter((name) => name !== 'listeners');
  const faults = unknown.map((name) => ({ path: [name], detail: 'is not known here; only "listeners" is' }));
  if (Array.isArray(value.listeners)) return faults;
  return [...faults, { path: ['listeners'], detail: 'must be a list' }];
}

function listOf(value: unknown): unknown[] {
  return isMapping(value) && Array.isArray(value.listeners) ? value.listeners : [];
}

interface EntryContext {
  readonly index: number;
  readonly yaml: YamlLines;
  /** The folder that a relative `secretFile` is resolved against. */
  readonly folder: string;
  readonly bounds: Bounds;
  readonly faults: Fault[];
}

async function readEntry(item: unknown, context: EntryContext): Promise<ListenerEntry | undefined> {
  const { index, yaml, folder, bounds, faults } = context;
  const path = ['listeners', index];
  if (!isMapping(item)) {
    faults.push({ path, detail: 'must be a mapping with a name, types and a url' });
    return undefined;
  }
  const { name, secret, secretFile, ...rest } = item;
  if (!isName(name)) {
    const detail = name === undefined ? 'is required' : `must be ${NAME_FORM}`;
    faults.push({ path: [...path, 'name'], detail });
  }
  const given = await secretOf(secret, secretFile, folder);
  if ('fault' in given) faults.push({ path: [...path, given.field], detail: given.fault });
  const checked = await checkDefinition(rest, bounds);
  if (checked.kind === 'invalid') {
    for (const { pointer, detail } of checked.faults)
      faults.push({ path: [...path, ...stepsOf(pointer)], detail });
    return undefined;
  }
  if ('fault' in given) return undefined;
  return {
    name: name as string,
    definition: checked.definition,
    secret: given.secret,
    line: yaml.lineOf(path),
  };
}

type GivenSecret =
  | { readonly secret: string | undefined }
  | { readonly field: string; readonly fault: string };

/** Its errors never quote what it read. */
async function secretOf(secret: unknown, secretFile: unknown, folder: string): Promise<GivenSecret> {
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
  const what = secretFile === undefined ? 'must be' : 'must hold';
  return { field, fault: `${what} "whsec_" and 24 to 64 bytes in base64` };
}

function repeatedNames(items: readonly unknown[]): Fault[] {
  const names = items.map((item) => (isMapping(item) ? item.name : undefined));
  return names.flatMap((name, index) =>
    typeof name === 'string' && names.indexOf(name) < index
      ? [
          {
            path: ['listeners', index, 'name'],
            detail: `is also the name of listeners[${names.indexOf(name)}]`,
          },
        ]
      : [],
  );
}

/** The steps of a JSON pointer. */
function stepsOf(pointer: string): string[] {
  if (pointer === '') return [];
  return pointer
    .slice(1)
    .split('/')
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function placeOf(path: readonly (string | number)[]): string {
  if (path.length === 0) return 'the file';
  return path
    .map((step) => (/^\d+$/.test(String(step)) ? `[${step}]` : `.${step}`))
    .join('')
    .slice(1);
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
