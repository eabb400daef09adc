/** modelTables.list — of a read model. $1 schema */
export const TABLES_OF_MODEL = `
  SELECT relname AS name FROM pg_class
  WHERE relnamespace = to_regnamespace($1) AND relkind IN ('r', 'p') AND relname <> 'migration'`;
