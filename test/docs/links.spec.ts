import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { ROOT } from '../support/built-service.ts';

const DOCUMENTS = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'packages/client/README.md',
  ...documentsIn('docs'),
];

function documentsIn(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .map((path) => join(folder, path));
}

/** The anchor of a heading on GitHub. */
function anchorOf(heading: string): string {
  const text = heading.replace(/^#+\s+/, '').toLowerCase();
  return text.replaceAll(/[^\p{L}\p{N}\s_-]/gu, '').replaceAll(/\s/g, '-');
}

function anchorsOf(markdown: string): string[] {
  return withoutCode(markdown)
    .split('\n')
    .filter((line) => /^#{1,6} /.test(line))
    .map(anchorOf);
}

function withoutCode(markdown: string): string {
  return markdown.replaceAll(/^```[\s\S]*?^```/gm, '');
}

/** Links to files or headings that do not exist. */
function brokenLinks(document: string, markdown: string): string[] {
  const links = [...withoutCode(markdown).matchAll(/\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"/g)];
  return links
    .map(([, link, attribute]) => link ?? attribute!)
    .filter((link) => !/^[a-z]+:/.test(link) && isBroken(document, markdown, link));
}

function isBroken(document: string, markdown: string, link: string): boolean {
  const [path, anchor] = link.split('#') as [string, string?];
  const target = path === '' ? join(ROOT, document) : join(ROOT, dirname(document), path);
  if (relative(ROOT, target).startsWith('..') || !existsSync(target)) return true;
  if (anchor === undefined) return false;
  if (statSync(target).isDirectory()) return true;
  return !anchorsOf(path === '' ? markdown : readFileSync(target, 'utf8')).includes(anchor);
}

describe('a link in', () => {
  it.each(DOCUMENTS)('%s leads to an existing file and heading', (document) => {
    expect(brokenLinks(document, readFileSync(join(ROOT, document), 'utf8'))).toEqual([]);
  });

  it('a document is checked so that a broken one is found', () => {
    const markdown =
      '# A heading: `x`, y\n[a](nowhere.md) [b](#another) [c](#a-heading-x-y) [d](../README.md#no)';
    expect(brokenLinks('docs/tutorial.md', markdown)).toEqual(['nowhere.md', '#another', '../README.md#no']);
  });
});
