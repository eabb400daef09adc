import type { MessageSummary } from '../../api-types.ts';

/** The command that posts this message again, with the payload as exactly the text it was posted with. Pure. */
export function curlOf(
  message: Pick<MessageSummary, 'id' | 'type' | 'key' | 'headers'>,
  payload: string,
  base: string,
): string {
  const { id, type, key, headers } = message;
  const rest = { id, type, key, ...(Object.keys(headers).length ? { headers } : {}) };
  const body = `${JSON.stringify(rest).slice(0, -1)},"payload":${payload}}`;
  return [
    `curl -X POST ${quoted(`${base}v1/messages`)}`,
    `  -H 'authorization: Bearer '"$SLUICE_API_KEY"`,
    `  -H 'content-type: application/json'`,
    `  --data-binary ${quoted(body)}`,
  ].join(' \\\n');
}

/** For a POSIX shell: nothing between single quotes has a meaning. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
