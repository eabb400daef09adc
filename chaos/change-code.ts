import { Database } from '../src/database/database.ts';
import { Transaction } from '../src/database/transaction.ts';

type Method<Class, Name extends keyof Class> = Class[Name] extends (...values: infer Values) => infer Result
  ? (this: Class, ...values: Values) => Result
  : never;

/** Replaces a method of a class of the service. Fails if there is none of that name: the change would change nothing. */
export function replaceMethod<Class, Name extends keyof Class & string>(
  of: { readonly prototype: Class },
  name: Name,
  replacement: (original: Method<Class, Name>) => Method<Class, Name>,
): void {
  const original = of.prototype[name];
  if (typeof original !== 'function') throw new Error(`there is no method ${name}`);
  of.prototype[name] = replacement(original as Method<Class, Name>) as Class[Name];
}

/** The statements that some code of the service runs, in their order. Nothing is sent to a database. */
export function statementsOf(run: (tx: Transaction) => unknown): string[] {
  const statements: string[] = [];
  const note = async (sql: string) => {
    statements.push(sql);
    return [];
  };
  run({ query: note, execute: note } as unknown as Transaction);
  return statements;
}

/** The same for a store that sends its statements in one round trip. */
export function roundTripOf(run: (database: Database) => Promise<unknown>): string[] {
  const statements: string[] = [];
  const inOneRoundTrip = async (all: readonly (readonly [sql: string])[]) => {
    statements.push(...all.map(([sql]) => sql));
    return [];
  };
  // It has no rows to go on with.
  run({ inOneRoundTrip } as unknown as Database).catch(() => undefined);
  return statements;
}

export type TextChange = readonly [from: string, to: string];

const rewritten = new Map<string, string>();

/** From now on this process runs another statement in place of one. Fails if a text to be changed is not in it. */
export function rewriteStatement(statement: string | undefined, ...changes: readonly TextChange[]): void {
  if (statement === undefined) throw new Error('there is no such statement');
  let text = statement;
  for (const [from, to] of changes) {
    if (!text.includes(from)) throw new Error(`the statement has no "${from}":\n${text}`);
    text = text.replace(from, () => to);
  }
  if (rewritten.size === 0) interceptStatements();
  rewritten.set(statement, text);
}

function interceptStatements(): void {
  for (const { prototype } of [Database, Transaction]) {
    const { query, execute } = prototype;
    if (!query || !execute) throw new Error('statements are run in another way');
    prototype.query = function (sql, values) {
      return query.call(this, rewritten.get(sql) ?? sql, values) as never;
    };
    prototype.execute = function (sql, values) {
      return execute.call(this, rewritten.get(sql) ?? sql, values);
    };
  }
}
