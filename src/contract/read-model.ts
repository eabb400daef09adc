import type { Type } from '@nestjs/common';
import type { SchemaPart } from '../database/data-source-options.ts';

/**
 * One folder of `read-models/`: the module with its denormalizers and controllers, and its entities and migrations. Add it
 * to `READ_MODELS` in `read-models.module.ts`.
 */
export interface ReadModel extends SchemaPart {
  /**
   * The name, such as `recruitment`: lower-case letters, digits and underscores. The tables of the read model live in a
   * PostgreSQL schema of this name and are found by `search_path`: name no schema in entities, migrations and SQL. So the
   * read model can be rebuilt in a second schema with the same code.
   */
  readonly name: string;
  readonly module: Type;
  /**
   * With CELLS: which column of each table has the key of the messages that write the row. Name all tables, first those that
   * others refer to. A slot can be moved to another cell only if its rows are found by it, so leave this out if a table has rows
   * that messages of several keys write.
   */
  readonly keyColumns?: Readonly<Record<string, string>>;
}
