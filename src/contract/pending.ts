import { ApiQuery } from '@nestjs/swagger';
import type { EntityManager } from 'typeorm';

/** Reads the read model as it will be after the waiting messages. The engine provides the implementation. */
export abstract class Pending {
  /**
   * Applies the waiting messages of the key in a transaction, calls `read`, and rolls the transaction back. `read` must
   * use only the manager it is given. Messages that need `prepare` are skipped. If a message would fail or be deferred,
   * it and all messages behind it are left out.
   */
  abstract read<T>(key: string, read: (manager: EntityManager) => Promise<T>): Promise<T>;
}

/** Documents the query parameter `?pending=true` in the OpenAPI document. */
export function ApiPending(): MethodDecorator {
  return ApiQuery({
    name: 'pending',
    required: false,
    schema: { type: 'boolean', default: false },
    description: 'Return the state after the waiting messages of this key (the id) are applied.',
  });
}
