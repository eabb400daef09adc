import { usageError } from './cli-error.ts';

/** A request body that contains the payload text unchanged: parsed and serialised again, a large number would change. */
export function bodyWithPayload(rest: Readonly<Record<string, unknown>>, payload: string): string {
  try {
    JSON.parse(payload);
  } catch (error) {
    throw usageError(
      `the payload is not JSON (${(error as Error).message}); a string needs quotes: '"text"'`,
    );
  }
  return `${JSON.stringify({ ...rest, payload: null }).slice(0, -'null}'.length)}${payload}}`;
}
