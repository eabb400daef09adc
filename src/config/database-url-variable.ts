export const DATABASE_URL_FORM =
  '`postgres://user:password@host:port/database`, with special characters percent-encoded';

/** Undefined for what PostgreSQL's driver could not take apart: its own error would come late and unclear. */
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
