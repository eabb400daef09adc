/** A block of shell commands, and what its output must contain. */
export interface Step {
  /** Of the fence, counted from 1. */
  readonly line: number;
  readonly commands: string;
  readonly expected: readonly string[];
}

/** A code block that a reader saves as a file. */
export interface DocumentFile {
  readonly path: string;
  readonly text: string;
}

export interface RunnableDocument {
  readonly steps: readonly Step[];
  readonly files: readonly DocumentFile[];
}

type Directive =
  | { readonly kind: 'run'; readonly part: string }
  | { readonly kind: 'output' }
  | { readonly kind: 'file'; readonly path: string };

const DIRECTIVE = /^<!-- (run|output contains|output|file)(?:: (.*?))? -->$/;
const LOOKS_LIKE_ONE = /^<!--\s*(run|output|file)\b/i;
const FENCE = /^```(\w*)$/;

/**
 * The parts of a Markdown file that can be run. Directives are HTML comments on a line of their own:
 *
 *     <!-- run -->                      the `sh` block that follows is run; `<!-- run: name -->` belongs to a named part
 *     <!-- output -->                   each line of the block that follows is in the output; `…` matches any text
 *     <!-- output contains: text -->    and so is this text
 *     <!-- file: path -->               the block that follows is the content of this file
 */
export function runnableParts(markdown: string, part = ''): RunnableDocument {
  const steps: (Step & { part: string; expected: string[] })[] = [];
  const files: DocumentFile[] = [];
  const lines = markdown.split('\n');
  let directive: Directive | undefined;
  for (let index = 0; index < lines.length; index += 1) {
    const line = lines[index]!;
    const at = index + 1;
    const [, kind, value] = DIRECTIVE.exec(line) ?? [];
    if (kind === 'output contains') lastOf(steps, at).expected.push(value!);
    else if (kind) directive = directiveOf(kind, value, at);
    else if (LOOKS_LIKE_ONE.test(line)) throw new Error(`line ${at}: not a directive: ${line}`);
    else if (FENCE.test(line)) {
      const end = lines.indexOf('```', index + 1);
      const code = lines.slice(index + 1, end);
      if (directive?.kind === 'run') {
        if (line !== '```sh') throw new Error(`line ${at}: only a block of sh can be run`);
        steps.push({ line: at, commands: code.join('\n'), part: directive.part, expected: [] });
      } else if (directive?.kind === 'output') lastOf(steps, at).expected.push(...code.filter(Boolean));
      else if (directive) files.push({ path: directive.path, text: `${code.join('\n')}\n` });
      directive = undefined;
      index = end;
    } else if (directive && line !== '')
      throw new Error(`line ${at}: a directive needs a code block after it`);
  }
  if (directive) throw new Error('the last directive has no code block');
  return { steps: steps.filter((step) => step.part === part), files };
}

function directiveOf(kind: string, value: string | undefined, line: number): Directive {
  if (kind === 'run') return { kind, part: value ?? '' };
  if (kind === 'output') return { kind };
  if (!value) throw new Error(`line ${line}: a file needs a path`);
  return { kind: 'file', path: value };
}

function lastOf<T>(steps: readonly T[], line: number): T {
  const last = steps.at(-1);
  if (!last) throw new Error(`line ${line}: output of no command`);
  return last;
}

/** Whether one line of the output, or a part of it, is as expected; `…` matches any text. */
export function isIn(output: string, expected: string): boolean {
  const parts = expected.trim().split('…').map(escaped);
  const pattern = new RegExp(parts.join('.*'));
  return output.split('\n').some((line) => pattern.test(line));
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
