import { PipelinedClient } from './pipelined-client.ts';

const BEGINS = /^\s*(BEGIN|START)\b/i;
const ENDS = /^\s*(COMMIT|ROLLBACK(?!\s+TO))\b/i;

/**
 * A client for readers behind a pooler in transaction mode, where a session keeps no `search_path`: every transaction sets
 * it for itself. A statement outside of one shares a round trip, and an implicit transaction, with the statement that sets it.
 * That needs the extended protocol: after the simple one PostgreSQL reports "unexpected state STARTED" for the next statement.
 */
export function clientWithSearchPath(searchPath: string): typeof PipelinedClient {
  return class extends PipelinedClient {
    private inTransaction = false;

    // biome-ignore lint/suspicious/noExplicitAny: node-postgres declares six overloads
    override query(...given: any[]): any {
      const [text, ...rest] = given;
      const send = super.query as (...args: unknown[]) => unknown;
      if (typeof text !== 'string') return send.apply(this, given);
      if (BEGINS.test(text)) {
        this.inTransaction = true;
        const begun = send.apply(this, given);
        (send.call(this, `SET LOCAL search_path = ${searchPath}`) as Promise<unknown>).catch(() => undefined);
        return begun;
      }
      if (ENDS.test(text)) this.inTransaction = false;
      else if (!this.inTransaction) {
        this.issue({ text: `SELECT set_config('search_path', '${searchPath}', true)` }).catch(
          () => undefined,
        );
        return send.call(this, { text, queryMode: 'extended' }, ...rest);
      }
      return send.apply(this, given);
    }
  };
}
