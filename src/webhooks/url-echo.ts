import type { Answer } from './answer.ts';

/** Shorter ones are words (`/hook`, `v1`), not secrets. */
const SHORTEST = 6;
/** Of one segment or value by itself: "unknown token 3f9c0a12". */
const MIN_ALONE = 8;
const HIDDEN = '…';
/** An excerpt of about this many characters was cut, perhaps in the middle of what must not be seen. */
const CUT_FROM = 1_000;
const MAX_KNOWN = 1_000;

const known = new Map<string, readonly string[]>();

/**
 * An answer without path and query of the URL it came from. They are often a secret, and many servers repeat them: "Cannot
 * POST /hooks/3f9c0a12". What is kept of an answer is shown to whoever may read.
 */
export function withoutEcho(answer: Answer, url: string): Answer {
  if (answer.kind === 'failed' || answer.excerpt === '') return answer;
  const texts = textsOf(url);
  const excerpt = texts.reduce((text, secret) => text.replaceAll(secret, HIDDEN), answer.excerpt);
  return { ...answer, excerpt: withoutBeginning(excerpt, texts) };
}

function withoutBeginning(excerpt: string, texts: readonly string[]): string {
  if (excerpt.length < CUT_FROM) return excerpt;
  for (const text of texts) {
    for (let length = text.length - 1; length >= SHORTEST; length--)
      if (excerpt.endsWith(text.slice(0, length))) return excerpt.slice(0, -length) + HIDDEN;
  }
  return excerpt;
}

/** What to look for, longest first. */
function textsOf(url: string): readonly string[] {
  let texts = known.get(url);
  if (texts === undefined) {
    if (known.size >= MAX_KNOWN) known.clear();
    texts = [...new Set(partsOf(new URL(url)).flatMap(writtenOtherwise))].sort((a, b) => b.length - a.length);
    known.set(url, texts);
  }
  return texts;
}

function partsOf({ pathname, search, searchParams }: URL): string[] {
  const whole = [pathname + search, pathname, search.slice(1)].filter(({ length }) => length >= SHORTEST);
  const alone = [...pathname.split('/'), ...searchParams.values(), ...search.slice(1).split(/[&=]/)];
  return [...whole, ...alone.filter(({ length }) => length >= MIN_ALONE)];
}

/** As it is in the URL, decoded, and both as HTML and as JSON have them. */
function writtenOtherwise(text: string): string[] {
  const both = [text, decoded(text)];
  return [...both, ...both.map(inHtml), ...both.map((one) => one.replaceAll('/', '\\/'))];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function inHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
