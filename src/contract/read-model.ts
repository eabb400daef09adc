import type { Type } from '@nestjs/common';
import type { SchemaPart } from '../database/data-source-options.ts';

/**
 * One folder of `read-models/`: the module with its denormalizers and controllers, and its entities and migrations. Add it
 * to `READ_MODELS` in `read-models.module.ts`.
 */
export interface ReadModel extends SchemaPart {
  readonly module: Type;
}
