import { Injectable, type OnModuleInit } from '@nestjs/common';
import { DiscoveryService } from '@nestjs/core';
import {
  DENORMALIZER,
  type DenormalizerMethods,
  type DenormalizerOptions,
} from '../../contract/denormalizer.ts';
import { checkDeclarations, DeclarationError, type DeclaredDenormalizer } from './declared-denormalizer.ts';

/** Every denormalizer of the application, found by its decorator. */
@Injectable()
export class Denormalizers implements OnModuleInit {
  /** In the order they run; denormalizers that are called message by message share a stage. */
  stages: readonly ReadonlySet<DeclaredDenormalizer>[] = [];
  private byType: ReadonlyMap<string, readonly DeclaredDenormalizer[]> = new Map();

  constructor(private readonly discovery: DiscoveryService) {}

  onModuleInit(): void {
    const found = new Map<unknown, DeclaredDenormalizer>();
    for (const wrapper of this.discovery.getProviders()) {
      const { metatype, instance } = wrapper;
      const marked = [instance?.constructor, metatype].find(isDenormalizer);
      if (!marked) continue;
      if (!wrapper.isDependencyTreeStatic())
        throw new DeclarationError(`denormalizer ${marked.name}: it must not be request-scoped`);
      found.set(instance, declared(marked, instance));
    }
    this.use([...found.values()]);
  }

  use(all: readonly DeclaredDenormalizer[]): void {
    checkDeclarations(all);
    const inOrder = all.toSorted((a, b) => (a.options.order ?? 0) - (b.options.order ?? 0));
    const byType = new Map<string, DeclaredDenormalizer[]>();
    for (const one of inOrder) {
      for (const type of one.options.types) byType.set(type, [...(byType.get(type) ?? []), one]);
    }
    this.byType = byType;
    this.stages = stagesOf(inOrder);
  }

  of(type: string): readonly DeclaredDenormalizer[] {
    return this.byType.get(type) ?? [];
  }

  slotOf(type: string): string | undefined {
    return this.of(type)[0]?.options.coalesce?.[type];
  }

  rankOf(type: string): number {
    return this.of(type)[0]?.options.rank?.[type] ?? 0;
  }

  /** The types that share a slot. */
  typesOfSlot(slot: string): string[] {
    return [...this.byType.keys()].filter((type) => this.slotOf(type) === slot);
  }
}

export function declared(metatype: object, instance: unknown): DeclaredDenormalizer {
  const options: DenormalizerOptions = Reflect.getMetadata(DENORMALIZER, metatype);
  const name = options.name ?? (metatype as { name: string }).name;
  return { name, options, instance: instance as DenormalizerMethods };
}

function isDenormalizer(metatype: unknown): metatype is { readonly name: string } {
  return typeof metatype === 'function' && Reflect.hasMetadata(DENORMALIZER, metatype);
}

/** Adjacent denormalizers with `apply` share a stage; each one with `applyBatch` has its own. */
function stagesOf(all: readonly DeclaredDenormalizer[]): Set<DeclaredDenormalizer>[] {
  const stages: Set<DeclaredDenormalizer>[] = [];
  let before: DeclaredDenormalizer | undefined;
  for (const one of all) {
    if (before?.instance.apply && one.instance.apply) stages.at(-1)!.add(one);
    else stages.push(new Set([one]));
    before = one;
  }
  return stages;
}
