import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';

const ROOT = resolve(import.meta.dirname, '../..');
const FOLDERS = ['src', 'packages/client/src', 'chaos'];
const MAX_FILE_LINES = 300;
const MAX_FUNCTION_LINES = 40;

/** Functions that are longer on purpose, each with its reason. */
const LONG: Record<string, string> = {
  'src/lanes/lane-queue.sql.ts: claimRows': 'It is one statement.',
};

function sources(): string[] {
  return FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts') && !name.endsWith('.spec.ts'))
      .map((name) => join(folder, name)),
  );
}

interface FunctionLines {
  readonly name: string;
  readonly lines: number;
}

/** From the name of a function to its end: its decorators do not count. */
function functionsIn(text: string): FunctionLines[] {
  const file = ts.createSourceFile('a.ts', text, ts.ScriptTarget.Latest, true);
  const lineOf = (position: number) => file.getLineAndCharacterOfPosition(position).line;
  const found: FunctionLines[] = [];
  const visit = (node: ts.Node) => {
    if (ts.isFunctionLike(node) && 'body' in node && node.body) {
      const named = node.name ?? (ts.isVariableDeclaration(node.parent) ? node.parent.name : undefined);
      const lines = lineOf(node.end) - lineOf((named ?? node).getStart()) + 1;
      found.push({ name: named?.getText() ?? 'a function without a name', lines });
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

describe('the code', () => {
  const texts = sources().map((name) => ({ name, text: readFileSync(join(ROOT, name), 'utf8') }));

  it(`has no file of more than ${MAX_FILE_LINES} lines`, () => {
    expect(texts.length).toBeGreaterThan(500);
    const long = texts.filter(({ text }) => text.split('\n').length - 1 > MAX_FILE_LINES);
    expect(long.map(({ name }) => name)).toEqual([]);
  });

  it(`has no function of more than ${MAX_FUNCTION_LINES} lines, except those listed here`, () => {
    const long = texts.flatMap(({ name: file, text }) =>
      functionsIn(text)
        .filter(({ lines }) => lines > MAX_FUNCTION_LINES)
        .map(({ name }) => `${file}: ${name}`),
    );
    expect(long).toEqual(Object.keys(LONG));
  });

  it('is measured so that a long function of any kind is found', () => {
    const body = `{\n${'  work();\n'.repeat(MAX_FUNCTION_LINES - 1)}}`;
    const text = `function plain() ${body}\nconst arrow = () => ${body};\nclass A { @Get()\n method() ${body} }\nrun(() => ${body});`;
    expect(functionsIn(text)).toEqual([
      { name: 'plain', lines: MAX_FUNCTION_LINES + 1 },
      { name: 'arrow', lines: MAX_FUNCTION_LINES + 1 },
      { name: 'method', lines: MAX_FUNCTION_LINES + 1 },
      { name: 'a function without a name', lines: MAX_FUNCTION_LINES + 1 },
    ]);
  });
});
