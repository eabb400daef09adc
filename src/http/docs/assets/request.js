// What a form of the reference means as an HTTP request. Knows no DOM, so that it can be tested without one.

/**
 * `fields`: the parameters as { name, place, value, required }. The URL is relative to the page, which may be served below
 * a prefix.
 */
export function requestOf({ method, path, fields, contentType, body }) {
  const given = fields.filter(({ value }) => value !== '');
  const query = given
    .filter(({ place }) => place === 'query')
    .map(({ name, value }) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`);
  const filled = given
    .filter(({ place }) => place === 'path')
    .reduce((text, { name, value }) => text.replace(`{${name}}`, () => encodeURIComponent(value)), path);
  const headers = given.filter(({ place }) => place === 'header').map(({ name, value }) => [name, value]);
  const withBody = body !== undefined && body !== '';
  return {
    method,
    url: filled.slice(1) + (query.length > 0 ? `?${query.join('&')}` : ''),
    headers: withBody ? [['Content-Type', contentType], ...headers] : headers,
    ...(withBody ? { body } : {}),
    missing: fields.filter(({ required, value }) => required && value === '').map(({ name }) => name),
  };
}

/** A command for a POSIX shell. The api key is left to the environment: a copied command ends up in histories and chats. */
export function curlOf({ method, url, headers, body }, base, needsKey) {
  const parts = [method === 'GET' ? 'curl' : `curl -X ${method}`];
  parts[0] += ` ${quoted(base + url)}`;
  if (needsKey) parts.push('-H "Authorization: Bearer $SLUICE_API_KEY"');
  for (const [name, value] of headers) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (body !== undefined) parts.push(`--data-raw ${quoted(body)}`);
  return parts.join(' \\\n  ');
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** fetch() takes header values byte by byte; the service reads them as UTF-8. */
export function headerBytes(value) {
  return Array.from(new TextEncoder().encode(value), (byte) => String.fromCharCode(byte)).join('');
}

/** JSON text with line breaks and indentation. By its characters, not parsed: a number keeps all its digits. */
export function indented(json) {
  let depth = 0;
  const line = () => `\n${'  '.repeat(depth)}`;
  return json.replace(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|\s+/g, (token) => {
    if (/^\s/.test(token)) return '';
    if (token === '{' || token === '[') {
      depth += 1;
      return token + line();
    }
    if (token === '}' || token === ']') {
      depth = Math.max(0, depth - 1);
      return line() + token;
    }
    if (token === ',') return token + line();
    return token === ':' ? ': ' : token;
  });
}
