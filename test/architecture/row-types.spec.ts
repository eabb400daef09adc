import { describe, expect, it } from '@jest/globals';
import { columnsOf, type QueryCall, queryCalls } from '../support/query-calls.ts';
import { sharedClient } from '../support/shared-client.ts';

const { client } = sharedClient();

async function missingOf({ where, statement, module, fields }: QueryCall): Promise<string[]> {
  const { [statement]: sql } = (await import(module)) as Record<string, string>;
  if (typeof sql !== 'string') return [`${where}: ${statement} must be exported to be read from here`];
  const columns = await columnsOf(client, sql);
  return fields
    .filter((field) => !columns.includes(field))
    .map((field) => `${where}: ${statement} has no ${field}`);
}

describe('the row types of statements', () => {
  it('have only fields that the statement returns: the compiler cannot see a misspelt alias', async () => {
    const calls = queryCalls().filter(({ fields }) => fields.length > 0);
    expect(calls.length).toBeGreaterThan(80);
    const missing: string[] = [];
    for (const call of calls) missing.push(...(await missingOf(call)));
    expect(missing).toEqual([]);
  });

  it('are checked so that a field without a column is found', async () => {
    expect(await columnsOf(client, 'SELECT 1 AS partial, $1::text AS "given"')).toEqual(['partial', 'given']);
    await expect(columnsOf(client, 'SELECT nothing')).rejects.toThrow('"nothing" does not exist');
  });
});
