import type { Type } from '@nestjs/common';
import type { SchemaPart } from '../database/data-source-options.ts';

/** One folder of `read-models/`: its tables, and the module with its denormalizers and controllers. */
export interface ReadModel extends SchemaPart {
  readonly module: Type;
}
