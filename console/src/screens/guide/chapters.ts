export interface Chapter {
  readonly title: string;
  /** As Git hosts make them from a heading. */
  readonly anchor: string;
  readonly text: string;
}

/** The second-level headings of a document with what follows each of them. Pure. */
export function chaptersOf(markdown: string): Chapter[] {
  return markdown
    .split(/^## /m)
    .slice(1)
    .map((part) => {
      const [title = '', ...lines] = part.split('\n');
      return { title, anchor: anchorOf(title), text: lines.join('\n') };
    });
}

function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}
