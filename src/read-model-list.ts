import type { ReadModel } from './contract/read-model.ts';
import { ReadModelsError } from './read-models-error.ts';

/** The read models to serve; throws with one line per fault. `where` is what the lines begin with. */
export function checkedReadModels(given: unknown, where: string): readonly ReadModel[] {
  const list: readonly unknown[] = Array.isArray(given) ? given : [given];
  const faults = list.flatMap((one, index) => faultsOf(one).map((fault) => `${at(list, index)}: ${fault}`));
  const names = list.map((one) => (one as { name?: unknown } | null | undefined)?.name);
  const shared = names.filter((name, index) => name !== undefined && names.indexOf(name) !== index);
  faults.push(
    ...[...new Set(shared)].map(
      (name) => `two read models have the name "${name}": rename one, or list it once`,
    ),
  );
  if (faults.length) throw new ReadModelsError(faults.map((fault) => `${where}: ${fault}`).join('\n'));
  return list as readonly ReadModel[];
}

function at(list: readonly unknown[], index: number): string {
  const one = list[index];
  const name = typeof one === 'object' && (one as { name?: unknown } | null)?.name;
  return typeof name === 'string' && name
    ? `read model ${name}`
    : `read model ${index + 1} of ${list.length}`;
}

function faultsOf(one: unknown): string[] {
  if (typeof one !== 'object' || one === null)
    return [`is ${describe(one)}, not a read model: { name, module, entities, migrations }`];
  const { name, module, entities, migrations } = one as Partial<
    Record<'name' | 'module' | 'entities' | 'migrations', unknown>
  >;
  const faults: string[] = [];
  if (typeof name !== 'string' || name === '') faults.push('"name" must be a text, such as "stock"');
  if (typeof module !== 'function') faults.push('"module" must be a class with the decorator @Module');
  if (!isClasses(entities)) faults.push('"entities" must be an array of classes; [] if it has none');
  if (!isClasses(migrations)) faults.push('"migrations" must be an array of classes; [] if it has none');
  return faults;
}

function isClasses(value: unknown): boolean {
  return Array.isArray(value) && value.every((one) => typeof one === 'function');
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return typeof value === 'function' ? `the class or function ${value.name}` : `a ${typeof value}`;
}
