import { join, relative } from 'node:path';
import type pg from 'pg';
import ts from 'typescript';

const ROOT = join(import.meta.dirname, '../..');

/** A call of `query<Row>(STATEMENT)` in the service. */
export interface QueryCall {
  readonly where: string;
  /** The name of the constant, and the file that exports it. */
  readonly statement: string;
  readonly module: string;
  /** The fields of the row type. */
  readonly fields: readonly string[];
}

/** Every call whose statement is a constant; statements that are built by functions have no call here. */
export function queryCalls(): QueryCall[] {
  const { options, fileNames } = ts.getParsedCommandLineOfConfigFile(
    join(ROOT, 'tsconfig.json'),
    {},
    { ...ts.sys, onUnRecoverableConfigFileDiagnostic: () => undefined },
  )!;
  const isService = (name: string) => name.startsWith(join(ROOT, 'src/')) && !name.endsWith('.spec.ts');
  const program = ts.createProgram(fileNames.filter(isService), options);
  const checker = program.getTypeChecker();
  return program
    .getSourceFiles()
    .filter(({ fileName }) => isService(fileName))
    .flatMap((file) => callsIn(file).flatMap((call) => queryCallOf(call, file, checker) ?? []));
}

function callsIn(file: ts.SourceFile): ts.CallExpression[] {
  const calls: ts.CallExpression[] = [];
  const visit = (node: ts.Node) => {
    if (ts.isCallExpression(node)) calls.push(node);
    ts.forEachChild(node, visit);
  };
  visit(file);
  return calls;
}

function queryCallOf(
  call: ts.CallExpression,
  file: ts.SourceFile,
  checker: ts.TypeChecker,
): QueryCall | undefined {
  const [statement] = call.arguments;
  if (!ts.isPropertyAccessExpression(call.expression) || call.expression.name.text !== 'query')
    return undefined;
  if (!statement || !ts.isIdentifier(statement) || !/^[A-Z_]+$/.test(statement.text)) return undefined;
  const rows = checker.getAwaitedType(checker.getTypeAtLocation(call));
  const row = rows && checker.getIndexTypeOfType(rows, ts.IndexKind.Number);
  const symbol = checker.getSymbolAtLocation(statement)!;
  const declared = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  const { line } = file.getLineAndCharacterOfPosition(call.getStart());
  return {
    where: `${relative(ROOT, file.fileName)}:${line + 1}`,
    statement: statement.text,
    module: declared.declarations![0]!.getSourceFile().fileName,
    fields: row?.getProperties().map(({ name }) => name) ?? [],
  };
}

/** The columns that a statement returns, as the server describes them without running it. */
export function columnsOf(client: pg.Client, sql: string): Promise<string[]> {
  return new Promise((resolve, reject) => {
    let columns: string[] = [];
    const description = {
      submit(connection: pg.Connection) {
        connection.parse({ name: '', text: sql, types: [] }, true);
        connection.describe({ type: 'S', name: '' }, true);
        connection.sync();
      },
      handleParseComplete: () => undefined,
      handleNoData: () => undefined,
      handleRowDescription: ({ fields }: { fields: { name: string }[] }) => {
        columns = fields.map(({ name }) => name);
      },
      handleError: reject,
      handleReadyForQuery: () => resolve(columns),
    };
    client.query(description as unknown as pg.Submittable);
  });
}
