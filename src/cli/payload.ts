import { usageFault } from './faults.ts';

/** A body whose payload goes as the text it is: read and written again, a large number would be another one. */
export function bodyWithPayload(rest: Readonly<Record<string, unknown>>, payload: string): string {
  try {
    JSON.parse(payload);
  } catch (error) {
    throw usageFault(`the payload is not JSON (${(error as Error).message}); a text needs quotes: '"text"'`);
  }
  return `${JSON.stringify({ ...rest, payload: null }).slice(0, -'null}'.length)}${payload}}`;
}
