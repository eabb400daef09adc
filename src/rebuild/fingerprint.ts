import { createHash } from 'node:crypto';
import type { DenormalizerOptions } from '../contract/denormalizer.ts';
import type { DeclaredDenormalizer } from '../inbox/denormalizers/declared-denormalizer.ts';

/**
 * Identifies what the denormalizers of a read model do, as far as their classes show it: what they declare, and the source text
 * of their methods. Not what these call in other files, nor payload classes, nor what is injected. It does not depend on the
 * version of the engine.
 */
export function fingerprintOf(denormalizers: readonly DeclaredDenormalizer[]): string {
  const parts = denormalizers.map((one) =>
    JSON.stringify([one.name, ...optionsOf(one.options), ...sources(one)]),
  );
  return createHash('sha256').update(JSON.stringify(parts.sort())).digest('hex').slice(0, 16);
}

function optionsOf({ types, order, sequential, coalesce, rank, rebuild }: DenormalizerOptions): unknown[] {
  const entries = (map: object = {}) => Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1));
  const again = rebuild?.prepare !== 'skip';
  return [[...types].sort(), order ?? 0, sequential ?? false, entries(coalesce), entries(rank), again];
}

/** Of the class and those it extends: `apply` may call methods of its own. */
function sources({ instance }: DeclaredDenormalizer): string[] {
  const methods = [instance.apply, instance.applyBatch, instance.prepare].map((method) => String(method));
  for (
    let proto = Object.getPrototypeOf(instance);
    proto && proto !== Object.prototype;
    proto = Object.getPrototypeOf(proto)
  )
    methods.push(String(proto.constructor));
  return methods;
}
