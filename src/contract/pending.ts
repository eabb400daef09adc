import { ApiQuery } from '@nestjs/swagger';
import type { EntityManager } from 'typeorm';

/** C7: the read model as it will be; the engine provides it. */
export abstract class Pending {
  /**
   * Reads with the waiting messages of the key applied, in a transaction that is rolled back afterwards. Read through
   * the given manager only. Messages that need a call outside (`prepare`) are left out; from one that would fail or be
   * deferred on, so are those behind it.
   */
  abstract read<T>(key: string, read: (manager: EntityManager) => Promise<T>): Promise<T>;
}

/** `?pending=true` in the OpenAPI document. */
export function ApiPending(): MethodDecorator {
  return ApiQuery({
    name: 'pending',
    required: false,
    enum: ['true', 'false'],
    description: 'As it will be when the waiting messages of the key (the id) are applied.',
  });
}
