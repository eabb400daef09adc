import type { Type } from '@nestjs/common';
import { nearest } from '../../config/nearest.ts';
import type { DenormalizerMethods, DenormalizerOptions } from '../../contract/denormalizer.ts';
import { hasRules } from './applied-message.ts';

/** A denormalizer as declared, checked. */
export interface DeclaredDenormalizer {
  readonly name: string;
  readonly options: DenormalizerOptions;
  readonly instance: DenormalizerMethods;
}

/** A wrong declaration: the service does not start. */
export class DeclarationError extends Error {}

/** Throws with all faults, one per line. */
export function checkDeclarations(declared: readonly DeclaredDenormalizer[]): void {
  const alone = declared.flatMap((one) =>
    faultsOfOne(one).map((fault) => `denormalizer ${one.name}: ${fault}`),
  );
  const faults = [...alone, ...sharedNames(declared), ...disagreements(declared), ...sharedSlots(declared)];
  if (faults.length) throw new DeclarationError(faults.join('\n'));
}

const KNOWN_OPTIONS = ['types', 'payload', 'name', 'order', 'sequential', 'coalesce', 'rank', 'rebuild'];

function faultsOfOne({ options, instance }: DeclaredDenormalizer): string[] {
  return [
    ...unknownOptions(options),
    ...typeFaults(options),
    ...payloadFaults(options),
    ...methodFaults(instance),
  ];
}

function unknownOptions(options: DenormalizerOptions): string[] {
  const unknown = Object.keys(options).filter((option) => !KNOWN_OPTIONS.includes(option));
  return unknown.map((option) => {
    const meant = nearest(option, KNOWN_OPTIONS, 3);
    return `"${option}" is not an option${meant ? `; did you mean "${meant}"?` : ''}`;
  });
}

function typeFaults({ types, coalesce = {}, rank = {} }: DenormalizerOptions): string[] {
  if (!Array.isArray(types) || types.length === 0) return ['"types" must name at least one type'];
  const faults: string[] = [];
  if (types.some((type) => typeof type !== 'string' || type === '')) faults.push('a type must be a string');
  for (const type of types.filter((one) => String(one).includes('*'))) {
    faults.push(`the type "${type}" is a pattern: a denormalizer names its types one by one`);
  }
  const twice = types.find((type, index) => types.indexOf(type) !== index);
  if (twice) faults.push(`the type "${twice}" is declared twice`);
  for (const type of new Set([...Object.keys(coalesce), ...Object.keys(rank)])) {
    if (types.includes(type)) continue;
    const meant = nearest(type, types, 3);
    const hint = meant ? `; did you mean "${meant}"?` : '';
    faults.push(`"${type}" is coalesced or ranked, but not among its types${hint}`);
  }
  return faults;
}

function payloadFaults({ types, payload }: DenormalizerOptions): string[] {
  if (typeof payload === 'function') return ruleFaults(payload);
  if (payload === undefined || !Array.isArray(types)) return [];
  const missing = types.filter((type) => typeof payload[type] !== 'function');
  const extra = Object.keys(payload).filter((type) => !types.includes(type));
  return [
    ...missing.map((type) => `"payload" has no class for the type "${type}"`),
    ...extra.map((type) => `"payload" has a class for "${type}", which is not among its types`),
    ...Object.values(payload).flatMap((one) => (typeof one === 'function' ? ruleFaults(one) : [])),
  ];
}

/** Without any rule, class-validator rejects every value: every message would become a dead letter. */
function ruleFaults(payload: Type<object>): string[] {
  if (hasRules(payload)) return [];
  return [`the payload class ${payload.name} has no rules: give its members decorators of class-validator`];
}

function methodFaults({ apply, applyBatch, prepare }: DenormalizerMethods): string[] {
  const faults: string[] = [];
  if (!apply === !applyBatch) faults.push('it must have either apply or applyBatch');
  if (prepare && !apply) faults.push('prepare gives its result to apply: it cannot go with applyBatch');
  return faults;
}

function sharedNames(declared: readonly DeclaredDenormalizer[]): string[] {
  const names = declared.map(({ name }) => name);
  const shared = names.filter((name, index) => names.indexOf(name) !== index);
  return [...new Set(shared)].map(
    (name) => `two denormalizers have the name ${name}: give one a "name", or list the class in one module`,
  );
}

/** A message is superseded as a whole: all denormalizers of its type must declare the same. */
function disagreements(declared: readonly DeclaredDenormalizer[]): string[] {
  const faults: string[] = [];
  const first = new Map<string, DeclaredDenormalizer>();
  for (const one of declared) {
    for (const type of one.options.types ?? []) {
      const other = first.get(type);
      if (!other) first.set(type, one);
      else if (one.options.coalesce?.[type] !== other.options.coalesce?.[type]) {
        faults.push(`denormalizers ${other.name} and ${one.name} coalesce "${type}" differently`);
      } else if ((one.options.rank?.[type] ?? 0) !== (other.options.rank?.[type] ?? 0)) {
        faults.push(`denormalizers ${other.name} and ${one.name} rank "${type}" differently`);
      }
    }
  }
  return faults;
}

/** Messages in one slot supersede each other: two unrelated denormalizers that both use "edit" do not intend that. */
function sharedSlots(declared: readonly DeclaredDenormalizer[]): string[] {
  return declared.flatMap((one, index) =>
    declared.slice(0, index).flatMap((other) => {
      const theirs = Object.entries(other.options.coalesce ?? {});
      const mine = Object.entries(one.options.coalesce ?? {});
      const slots = new Set(
        mine.map(([, slot]) => slot).filter((slot) => theirs.some(([, its]) => its === slot)),
      );
      const shareType = mine.some(([type]) => type in (other.options.coalesce ?? {}));
      if (shareType || one.name === other.name) return [];
      return [...slots].map(
        (slot) =>
          `denormalizers ${other.name} and ${one.name} both have a slot "${slot}", for different types: rename one`,
      );
    }),
  );
}
