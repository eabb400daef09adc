import { existsSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ReadModel } from './contract/read-model.ts';
import { checkOneCopy } from './one-copy.ts';
import { checkedReadModels } from './read-model-list.ts';
import { ReadModelsError } from './read-models-error.ts';

/** The read models of files that each export `readModels` or a default: one read model or an array. */
export async function loadReadModels(paths: readonly string[]): Promise<readonly ReadModel[]> {
  const lists: (readonly ReadModel[])[] = [];
  for (const path of paths) lists.push(await loadFile(path));
  return checkedReadModels(lists.flat(), paths.join(', '));
}

async function loadFile(path: string): Promise<readonly ReadModel[]> {
  const file = resolve(path);
  if (!existsSync(file))
    throw new ReadModelsError(
      `${path} does not exist; compile the read models first, for example with npx tsc`,
    );
  if (!statSync(file).isFile())
    throw new ReadModelsError(`${path} is not a file; give the one that exports the read models`);
  // Before the file is loaded: with a second copy, loading it can fail with a misleading error.
  checkOneCopy(dirname(file));
  const exported = await load(file, path);
  const given = exported.readModels ?? exported.default;
  if (given !== undefined) return checkedReadModels(given, path);
  const names = Object.keys(exported).join(', ') || 'nothing';
  throw new ReadModelsError(
    `${path} exports ${names}, but neither "readModels" nor a default: export const readModels = [stock]`,
  );
}

async function load(file: string, path: string): Promise<Record<string, unknown>> {
  try {
    return await import(pathToFileURL(file).href);
  } catch (error) {
    throw new ReadModelsError(`${path} cannot be loaded: ${reasonOf(error, path)}`, { cause: error });
  }
}

function reasonOf(error: unknown, path: string): string {
  const { code, message, stack } = error as NodeJS.ErrnoException;
  const isTypeScript = /\.[mc]?ts$/.test(path);
  if (code === 'ERR_UNKNOWN_FILE_EXTENSION' && isTypeScript)
    return `Node ${process.versions.node} does not run TypeScript; compile it and give the .js file`;
  if (isTypeScript && (code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX' || error instanceof SyntaxError))
    return `Node only removes types, and decorators need a compiler: compile it and give the .js file (${message})`;
  if (code === 'ERR_MODULE_NOT_FOUND') return message;
  return stack ?? String(error);
}
