import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';

/** An error in the text, and its line. */
export interface LineFault {
  readonly line: number;
  readonly detail: string;
}

/** A YAML text as plain values, with the lines they came from. */
export class YamlLines {
  private constructor(
    readonly value: unknown,
    readonly faults: readonly LineFault[],
    private readonly document: Document,
    private readonly counter: LineCounter,
  ) {}

  static parse(text: string): YamlLines {
    const lineCounter = new LineCounter();
    // Not `prettyErrors`: they quote the lines around an error, which may contain a secret.
    const document = parseDocument(text, { lineCounter, prettyErrors: false, uniqueKeys: true });
    const faults = [...document.errors, ...document.warnings].map(({ pos, message }) => ({
      line: lineCounter.linePos(pos[0]).line,
      detail: message,
    }));
    if (faults.length) return new YamlLines(undefined, faults, document, lineCounter);
    try {
      return new YamlLines(document.toJS({ maxAliasCount: 100 }), [], document, lineCounter);
    } catch (error) {
      const fault = { line: 1, detail: (error as Error).message };
      return new YamlLines(undefined, [fault], document, lineCounter);
    }
  }

  /** The line of the value at a path; if it is missing, the line of its parent. */
  lineOf(path: readonly (string | number)[]): number {
    let node = this.document.contents as Node | null;
    let offset = node?.range?.[0] ?? 0;
    for (const step of path) {
      const next = isAlias(node) ? childOf(node.resolve(this.document), step) : childOf(node, step);
      if (!next) break;
      offset = next.offset ?? offset;
      node = next.node;
    }
    return this.counter.linePos(offset).line;
  }
}

function childOf(
  parent: unknown,
  step: string | number,
): { node: Node | null; offset: number | undefined } | undefined {
  if (isSeq<Node>(parent)) {
    const node = parent.items[Number(step)];
    return node && { node, offset: node.range?.[0] };
  }
  if (!isMap<Node, Node | null>(parent)) return undefined;
  const pair = parent.items.find(({ key }) => isScalar(key) && String(key.value) === String(step));
  return pair && { node: pair.value, offset: pair.key.range?.[0] };
}

export function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
