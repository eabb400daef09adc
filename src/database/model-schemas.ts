import type pg from 'pg';

/** A read model is declared in a way the service cannot run; the message is one line with the next step. */
export class ModelSchemaError extends Error {}

/** What is known of a read model here: its name, which is also the schema of its tables. */
export interface NamedModel {
  readonly name: string;
  readonly entities: readonly unknown[];
}

const NAME = /^[a-z][a-z0-9_]{0,39}$/;
const RESERVED = /^(public|information_schema|pg_.*|.*__(next|previous))$/;

/** Refuses names that are no schema names, and names that two read models share. */
export function checkModelNames(models: readonly NamedModel[]): void {
  for (const { name } of models) {
    if (typeof name !== 'string' || !NAME.test(name) || RESERVED.test(name))
      throw new ModelSchemaError(
        `the read model name ${JSON.stringify(name) ?? 'undefined'} cannot be used: its tables live in a schema of that name; ` +
          'choose up to 40 lower-case letters, digits and underscores, such as "recruitment"',
      );
    if (models.filter((other) => other.name === name).length > 1)
      throw new ModelSchemaError(`two read models are named "${name}": give one of them another name`);
  }
}

/** The `search_path` of every session: a read model's tables are found without their schema. */
export function searchPathOf(schemas: readonly string[]): string {
  return [...schemas, 'public'].join(', ');
}

/** The URL with `search_path`, and other settings, as options of the session, beside the options that it has. */
export function withSearchPath(url: string, searchPath: string, ...settings: readonly string[]): string {
  const parsed = new URL(url);
  const given = parsed.searchParams.get('options');
  const options = [`search_path=${searchPath.replaceAll(' ', '')}`, ...settings].map((one) => `-c ${one}`);
  parsed.searchParams.set('options', [...(given ? [given] : []), ...options].join(' '));
  return parsed.href;
}

/** A schema-qualified name would lead to the living tables, also in a rebuild. */
export function refuseSchemasOfEntities(
  entities: readonly { name: string; schema?: string | undefined }[],
): void {
  const fixed = entities.find(({ schema }) => schema !== undefined);
  if (fixed)
    throw new ModelSchemaError(
      `entity ${fixed.name} names the schema "${fixed.schema}": leave it out, the tables of a read model are found by search_path`,
    );
}

/** Tables that two read models have, and tables that the engine has under the same name. */
const SHARED_TABLES = `
  SELECT relname AS table, array_agg(nspname::text ORDER BY nspname) AS schemas
  FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
  WHERE (nspname = ANY ($1) OR nspname = 'public') AND relkind IN ('r', 'p', 'f') AND relname <> 'migration'
  GROUP BY relname HAVING count(*) > 1 LIMIT 1`;

/** Foreign keys that lead out of the schema of a read model, or into it. They would keep to the old table when it is switched. */
const FOREIGN_KEYS = `
  SELECT conname AS name, conrelid::regclass::text AS "from", confrelid::regclass::text AS "to"
  FROM pg_constraint
  JOIN pg_class AS source ON source.oid = conrelid JOIN pg_namespace AS own ON own.oid = source.relnamespace
  JOIN pg_class AS target ON target.oid = confrelid JOIN pg_namespace AS other ON other.oid = target.relnamespace
  WHERE contype = 'f' AND own.oid <> other.oid AND (own.nspname = ANY ($1) OR other.nspname = ANY ($1)) LIMIT 1`;

/** Two read models that share a table or a foreign key cannot be rebuilt alone. */
export async function refuseSharedTables(
  client: Pick<pg.Client, 'query'>,
  schemas: readonly string[],
): Promise<void> {
  const [shared] = (await client.query(SHARED_TABLES, [schemas])).rows;
  if (shared)
    throw new ModelSchemaError(
      `the table "${shared.table}" exists in ${shared.schemas.join(' and ')}: a read model needs tables of its own; rename one of them`,
    );
  const [key] = (await client.query(FOREIGN_KEYS, [schemas])).rows;
  if (key)
    throw new ModelSchemaError(
      `foreign key ${key.name} leads from ${key.from} to ${key.to}, out of its read model, which could then not be rebuilt alone: drop it`,
    );
}
