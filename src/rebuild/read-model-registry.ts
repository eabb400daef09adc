import { Inject, Injectable, type OnModuleInit, type Type } from '@nestjs/common';
import { DiscoveryService, ModulesContainer } from '@nestjs/core';
import type { Module } from '@nestjs/core/injector/module.js';
import { DENORMALIZER } from '../contract/denormalizer.ts';
import type { ReadModel } from '../contract/read-model.ts';
import type { DeclaredDenormalizer } from '../inbox/denormalizers/declared-denormalizer.ts';
import { DenormalizerRunner } from '../inbox/denormalizers/denormalizer-runner.ts';
import { Denormalizers, declared } from '../inbox/denormalizers/denormalizers.ts';
import { fingerprintOf } from './fingerprint.ts';

export const READ_MODELS_TOKEN = Symbol('read models');

/** A read model with its own denormalizers only. */
export interface RegisteredModel {
  readonly name: string;
  readonly readModel: ReadModel;
  readonly denormalizers: Denormalizers;
  readonly runner: DenormalizerRunner;
  readonly types: readonly string[];
  readonly migrations: readonly string[];
  /** Of its denormalizers' code. */
  readonly version: string;
}

/** Which denormalizers belong to which read model: those of its module and of the modules that only it imports. */
@Injectable()
export class ReadModelRegistry implements OnModuleInit {
  private readonly byName = new Map<string, RegisteredModel>();

  constructor(
    @Inject(READ_MODELS_TOKEN) private readonly readModels: readonly ReadModel[],
    private readonly modules: ModulesContainer,
    private readonly discovery: DiscoveryService,
  ) {}

  onModuleInit(): void {
    for (const readModel of this.readModels) {
      const own = this.denormalizersOf(readModel.module);
      const denormalizers = new Denormalizers(this.discovery);
      denormalizers.use(own);
      this.byName.set(readModel.name, {
        name: readModel.name,
        readModel,
        denormalizers,
        runner: new DenormalizerRunner(denormalizers),
        types: [...new Set(own.flatMap(({ options }) => options.types))],
        migrations: readModel.migrations.map(({ name }) => name).sort(),
        version: fingerprintOf(own),
      });
    }
  }

  get names(): string[] {
    return [...this.byName.keys()];
  }

  find(name: string): RegisteredModel | undefined {
    return this.byName.get(name);
  }

  private denormalizersOf(type: Type): DeclaredDenormalizer[] {
    const root = [...this.modules.values()].find(({ metatype }) => metatype === type);
    const own = new Set<Module>();
    const visit = (module: Module) => {
      if (own.has(module) || module.isGlobal) return;
      own.add(module);
      for (const imported of module.imports) visit(imported);
    };
    if (root) visit(root);
    const found = new Map<unknown, DeclaredDenormalizer>();
    for (const { metatype, instance, host } of this.discovery.getProviders()) {
      const marked = [instance?.constructor, metatype].find(
        (one) => typeof one === 'function' && Reflect.hasMetadata(DENORMALIZER, one),
      );
      if (marked && host && own.has(host as Module)) found.set(instance, declared(marked, instance));
    }
    return [...found.values()];
  }
}
