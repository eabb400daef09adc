import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { SETTINGS } from '../../src/config/settings.schema.ts';
import { ROOT } from '../support/built-service.ts';

const TOUR = 'docs/tour.md';
const PATH = /^(?:src|test|docs|chaos|bench|migrations)(?:\/[\w./-]+)?$/;
/** `function()`, `Class.method()`, `Class` or `CONSTANT`. */
const NAME = /^(?:([A-Z]\w*)\.)?(\w+)(\(\))?$/;

const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts') && !path.endsWith('.spec.ts'))
  .map((path) => join('src', path));

/** The errors in the tour, each with what to change. */
function faultsOf(markdown: string): string[] {
  return markdown.split('\n').flatMap((line, index) => faultsOfLine(line, `${TOUR}:${index + 1}`));
}

function faultsOfLine(line: string, at: string): string[] {
  const named = [...line.matchAll(/`([^`]+)`/g)].map(([, text]) => text!);
  const missing = named.filter((name) => PATH.test(name) && !existsSync(join(ROOT, name)));
  if (missing.length > 0) return missing.map((path) => `${at}: ${path} does not exist${movedTo(path)}`);
  const [, file, rest] = /^\| `(src\/[^`]+)` \|(.*)\|$/.exec(line) ?? [];
  if (!file) return [];
  const text = readFileSync(join(ROOT, file), 'utf8');
  const names = [...rest!.matchAll(/`([^`]+)`/g)].map(([, name]) => name!);
  return names.filter(isCode).flatMap((name) => faultOfName(name, file, text, at));
}

/** Names of settings and formats are not code of the file. */
function isCode(name: string): boolean {
  return NAME.test(name) && (name.endsWith('()') || /^[A-Z]/.test(name)) && !(name in SETTINGS);
}

function faultOfName(name: string, file: string, text: string, at: string): string[] {
  const [, owner, member, call] = NAME.exec(name)!;
  const missing = [
    ...(owner && !new RegExp(`\\bclass ${owner}\\b`).test(text) ? [`class ${owner}`] : []),
    ...(isDeclared(member!, call !== undefined, text) ? [] : [member!]),
  ];
  return missing.map((what) => `${at}: ${file} declares no ${what} (\`${name}\`)${declaredIn(what)}`);
}

function isDeclared(name: string, called: boolean, text: string): boolean {
  if (!called) return new RegExp(`\\b(class|const|interface|type|function) ${name}\\b`).test(text);
  const method = `^  (?:private |protected |static |async )*${name}(?:<[^(]*>)?\\(`;
  return new RegExp(`\\bfunction ${name}\\b|\\bconst ${name}\\b|${method}`, 'm').test(text);
}

function movedTo(path: string): string {
  const name = path.split('/').at(-1)!;
  return hint(
    'it may be',
    sources.filter((source) => source.endsWith(`/${name}`)),
  );
}

function declaredIn(what: string): string {
  const name = what.replace('class ', '');
  const found = sources.filter((path) => {
    const text = readFileSync(join(ROOT, path), 'utf8');
    return isDeclared(name, true, text) || isDeclared(name, false, text);
  });
  return hint('it is declared in', found);
}

function hint(words: string, found: readonly string[]): string {
  return found.length > 0
    ? `; ${words} ${found.slice(0, 3).join(' or ')}`
    : '; it was renamed or removed: name what does its work now, or take the row out';
}

/** How many files each section lists. */
function countsOf(markdown: string): number[] {
  return markdown
    .split(/^## /m)
    .slice(1)
    .map((section) => section.match(/^\| `src\//gm)?.length ?? 0)
    .filter((count) => count > 0);
}

describe('the tour of the code', () => {
  const tour = readFileSync(join(ROOT, TOUR), 'utf8');

  it('names files that exist, and functions that they declare', () => {
    expect(faultsOf(tour)).toEqual([]);
  });

  it('states the right number of files', () => {
    const counts = countsOf(tour);
    const headings = [...tour.matchAll(/^## .*\((\d+) files\)$/gm)].map(([, count]) => Number(count));
    expect({ 'in the headings': headings }).toEqual({ 'in the headings': counts });
    expect(tour).toContain(`**${counts.join(' + ')} files**`);
  });

  it('names no file twice', () => {
    const files = [...tour.matchAll(/^\| `(src\/[^`]+)` \|/gm)].map(([, file]) => file);
    expect(files.filter((file, index) => files.indexOf(file) !== index)).toEqual([]);
  });

  it('is checked so that a missing name is found, with a suggestion', () => {
    expect(
      faultsOf(
        [
          '| `src/inbox/lane-queue.ts` | `LaneQueue.lease()` |',
          '| `src/lanes/lane-queue.ts` | `LaneQueue.borrow()`, `Ingest.post()`, `MAX_PARKING_CLAIMS`, `laneOf()` |',
        ].join('\n'),
      ),
    ).toEqual([
      'docs/tour.md:1: src/inbox/lane-queue.ts does not exist; it may be src/lanes/lane-queue.ts',
      expect.stringContaining('declares no borrow (`LaneQueue.borrow()`); it was renamed or removed'),
      expect.stringContaining(
        'declares no class Ingest (`Ingest.post()`); it is declared in src/inbox/ingest.ts',
      ),
      expect.stringContaining('declares no post (`Ingest.post()`)'),
      expect.stringContaining('declares no laneOf (`laneOf()`); it is declared in src/lanes/lane-of.ts'),
    ]);
  });
});
