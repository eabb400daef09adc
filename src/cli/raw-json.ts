/** The texts of the items of a JSON array, as they are: a payload that is parsed and serialised again may change. */
export function itemTexts(array: string): string[] {
  return partsOf(array);
}

/** The text of a member of a JSON object, as it is; undefined if it has none of this name. */
export function memberText(object: string, name: string): string | undefined {
  for (const part of partsOf(object)) {
    const end = endOfString(part, 0) + 1;
    if (JSON.parse(part.slice(0, end)) === name) return part.slice(part.indexOf(':', end) + 1).trim();
  }
  return undefined;
}

/** What is between the brackets of valid JSON, split at the commas of the first level. */
function partsOf(text: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let from = 1;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at]!;
    if (character === '"') at = endOfString(text, at);
    else if (character === '{' || character === '[') depth += 1;
    else if (character === '}' || character === ']') depth -= 1;
    else if (character === ',' && depth === 1) {
      parts.push(text.slice(from, at).trim());
      from = at + 1;
    }
  }
  const last = text.slice(from, -1).trim();
  return last === '' ? parts : [...parts, last];
}

/** The place of the quote that ends the string that begins at `start`. */
function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at;
}
