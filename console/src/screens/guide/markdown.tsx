import type { ComponentChildren } from 'preact';
import { to } from '../../router.ts';

/** The Markdown that our own documents use: headings, paragraphs, lists, code, tables. Builds elements, never HTML. */
export function Markdown({ of }: { of: string }) {
  return (
    <>
      {blocksOf(of).map((block, index) => (
        <Block key={index} of={block} />
      ))}
    </>
  );
}

type Kind = 'code' | 'list' | 'numbered' | 'heading' | 'table' | 'text';
interface Block {
  readonly kind: Kind;
  readonly lines: readonly string[];
}

function blocksOf(text: string): Block[] {
  const blocks: { kind: Kind; lines: string[] }[] = [];
  let open: { kind: Kind; lines: string[] } | undefined;
  for (const line of text.split('\n')) {
    if (open?.kind === 'code') {
      if (line.startsWith('```')) open = undefined;
      else open.lines.push(line);
      continue;
    }
    const kind = kindOf(line);
    if (line.trim() === '') {
      // A list goes on after an empty line if an item follows.
      if (open?.kind !== 'list' && open?.kind !== 'numbered') open = undefined;
    } else if (
      open &&
      (open.kind === kind || (kind === 'text' && (open.kind === 'text' || line.startsWith('  '))))
    ) {
      open.lines.push(line);
    } else {
      open = { kind, lines: kind === 'code' ? [] : [line] };
      blocks.push(open);
    }
  }
  return blocks;
}

function kindOf(line: string): Kind {
  if (line.startsWith('```')) return 'code';
  if (/^- /.test(line)) return 'list';
  if (/^\d+\. /.test(line)) return 'numbered';
  if (/^#{2,4} /.test(line)) return 'heading';
  return line.startsWith('|') ? 'table' : 'text';
}

function Block({ of: { kind, lines } }: { of: Block }) {
  if (kind === 'code') return <pre class="excerpt">{lines.join('\n')}</pre>;
  if (kind === 'heading') return <h2>{inline(lines[0]!.replace(/^#+ /, ''))}</h2>;
  if (kind === 'table') return <Rows of={lines} />;
  if (kind === 'text') return <p>{inline(lines.join(' '))}</p>;
  const items = itemsOf(lines).map((item, index) => <li key={index}>{inline(item)}</li>);
  return kind === 'list' ? <ul>{items}</ul> : <ol>{items}</ol>;
}

function itemsOf(lines: readonly string[]): string[] {
  const items: string[] = [];
  for (const line of lines) {
    const begin = /^(?:- |\d+\. )(.*)$/.exec(line);
    if (begin) items.push(begin[1]!);
    else items.push(`${items.pop() ?? ''} ${line.trim()}`);
  }
  return items;
}

function Rows({ of }: { of: readonly string[] }) {
  const rows = of.filter((line) => !/^\|[-| ]+\|$/.test(line)).map((line) => line.slice(1, -1).split('|'));
  return (
    <table>
      <tbody>
        {rows.map((cells, row) => (
          <tr key={row}>
            {cells.map((cell, column) => (
              <td key={column}>{inline(cell.trim())}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*|\[([^\]]+)\]\(([^)]+)\)/g;

function inline(text: string): ComponentChildren[] {
  const parts: ComponentChildren[] = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, code, strong, em, label, target] = match;
    parts.push(text.slice(end, match.index));
    if (code) parts.push(<code>{code}</code>);
    else if (strong) parts.push(<strong>{strong}</strong>);
    else if (em) parts.push(<em>{em}</em>);
    else parts.push(linked(label!, target!));
    end = match.index + whole.length;
  }
  return [...parts, text.slice(end)];
}

/** Other documents are not served by the service: only chapters of this one are links. */
function linked(label: string, target: string): ComponentChildren {
  return target.startsWith('#') ? <a href={to('guide', { chapter: target.slice(1) })}>{label}</a> : label;
}
