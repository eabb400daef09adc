import { READ_MODELS } from '../../src/read-models/read-models.module.ts';
import { schemaOf } from '../../src/schema.ts';

/** The engine's tables and those of the read models in this repository. */
export const SCHEMA = schemaOf(READ_MODELS);
