export const DATABASE_URL_FORM =
  '`postgres://user:password@host:port/database`, with special characters percent-encoded';

/** Returns undefined for a URL that node-postgres cannot parse: its own error would come late and be unclear. */
export function parseDatabaseUrl(raw: string): string | undefined {
  const text = raw.trim();
  if (!/^postgres(ql)?:\/\/\S+$/.test(text)) return undefined;
  try {
    const { username, password, pathname } = new URL(text);
    decodeURIComponent(username + password + pathname);
    return text;
  } catch {
    return undefined;
  }
}
