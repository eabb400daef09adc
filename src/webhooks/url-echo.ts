import type { HttpResult } from './call-result.ts';

/** Shorter texts are words (`/hook`, `v1`), not secrets. */
const MIN_LENGTH = 6;
/** Min length of a single segment or value: "unknown token 3f9c0a12". */
const MIN_ALONE = 8;
const HIDDEN = '…';
/** An excerpt of about this many characters was truncated, perhaps in the middle of a secret. */
const TRUNCATED_FROM = 1_000;
const MAX_KNOWN = 1_000;

const known = new Map<string, readonly string[]>();

/**
 * Removes the path and query of the URL from a response. They are often a secret, and many servers repeat them: "Cannot POST
 * /hooks/3f9c0a12". The stored part of a response is shown to everyone with read access.
 */
export function withoutEcho(result: HttpResult, url: string): HttpResult {
  if (result.kind === 'failed' || result.excerpt === '') return result;
  const texts = textsOf(url);
  const excerpt = texts.reduce((text, secret) => text.replaceAll(secret, HIDDEN), result.excerpt);
  return { ...result, excerpt: withoutTruncated(excerpt, texts) };
}

function withoutTruncated(excerpt: string, texts: readonly string[]): string {
  if (excerpt.length < TRUNCATED_FROM) return excerpt;
  for (const text of texts) {
    for (let length = text.length - 1; length >= MIN_LENGTH; length--)
      if (excerpt.endsWith(text.slice(0, length))) return excerpt.slice(0, -length) + HIDDEN;
  }
  return excerpt;
}

/** The texts to remove, longest first. */
function textsOf(url: string): readonly string[] {
  let texts = known.get(url);
  if (texts === undefined) {
    if (known.size >= MAX_KNOWN) known.clear();
    texts = [...new Set(partsOf(new URL(url)).flatMap(variantsOf))].sort((a, b) => b.length - a.length);
    known.set(url, texts);
  }
  return texts;
}

function partsOf({ pathname, search, searchParams }: URL): string[] {
  const whole = [pathname + search, pathname, search.slice(1)].filter(({ length }) => length >= MIN_LENGTH);
  const alone = [...pathname.split('/'), ...searchParams.values(), ...search.slice(1).split(/[&=]/)];
  return [...whole, ...alone.filter(({ length }) => length >= MIN_ALONE)];
}

/** As in the URL and decoded, and both as escaped in HTML and in JSON. */
function variantsOf(text: string): string[] {
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
