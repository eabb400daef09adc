import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { laneGroupOf } from '../../history/history-message.ts';
import { RewriteStore } from '../../history/rewrite-store.ts';
import { AuditLog } from '../../http/audit/audit-log.ts';
import { INBOX_LANES } from '../../inbox/new-message.ts';
import { laneOf } from '../../lanes/lane-of.ts';

/** history.inInbox — finished messages of a key that may be moved to history later. $1 key */
export const IN_INBOX = `
  SELECT count(*)::int AS count FROM inbox
  WHERE (key, position) > ($1::text, 0) AND (key, position) < ($1::text, 9223372036854775807)`;

const MAX_LISTED = 1_000;

export interface Erasure {
  readonly key: string;
  readonly by: string;
  readonly reason: string | undefined;
}

/** Removes all messages of a key from history, with their identities. */
@Injectable()
export class KeyErasure {
  constructor(
    private readonly database: Database,
    private readonly blocks: RewriteStore,
    private readonly audit: AuditLog,
  ) {}

  /** Block by block; what was erased stays erased if it fails half way, and is recorded. */
  async erase({ key, by, reason }: Erasure): Promise<{ erased: number; inInbox: number }> {
    let erased = 0;
    try {
      erased = await this.eraseFromBlocks(key, (count) => {
        erased = count;
      });
    } finally {
      await this.audit.record(
        { by, action: 'history.erase', target: key, count: erased, reason },
        this.database,
      );
    }
    const [row] = await this.database.query<{ count: number }>(IN_INBOX, [key]);
    return { erased, inInbox: row!.count };
  }

  /** Blocks that replace others have higher ids, so they are found further on. */
  private async eraseFromBlocks(key: string, progressed: (count: number) => void): Promise<number> {
    const group = laneGroupOf(laneOf(key, INBOX_LANES));
    let erased = 0;
    for (let after = 0; ; ) {
      const ids = await this.blocks.ofGroup(group, after, MAX_LISTED);
      for (const id of ids) {
        if (!(await this.blocks.hasKey(id, key))) continue;
        const gone = await this.blocks.rewrite([id], (messages) => messages.filter((one) => one.key !== key));
        erased += gone?.length ?? 0;
        progressed(erased);
      }
      if (ids.length === 0) return erased;
      after = ids.at(-1)!;
    }
  }
}
