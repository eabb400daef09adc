import { Inject, Injectable } from '@nestjs/common';
import type { Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { type ListenerRow, ListenersStore } from '../listeners-store.ts';
import { ConfidentialBox } from './confidential.ts';
import { signingNow } from './signing-secrets.ts';

/** Seldom: while a rotation is rolled out, replicas disagree about the first key and undo each other's work. */
const PAUSE_MS = 60_000;

/** Seals anew, with the first master key, what another one sealed: so that this one can be taken out of SECRETS_KEYS. */
@Injectable()
export class Reseal {
  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly store: ListenersStore,
    private readonly box: ConfidentialBox,
    loops: Loops,
  ) {
    loops.run('upkeep', 'listener-secrets', PAUSE_MS, () => this.pass());
  }

  private async pass(): Promise<Next> {
    const { now } = await this.store.revision();
    let listeners = 0;
    for (const row of await this.store.live()) if (await this.reseal(row, now)) listeners += 1;
    if (listeners > 0)
      this.log.info({ event: 'secrets.sealed-anew', listeners }, 'sealed with the first key of SECRETS_KEYS');
    return 'idle';
  }

  private async reseal(row: ListenerRow, now: Date): Promise<boolean> {
    if (!(await this.box.isOutdated(row.sealed))) return false;
    const opened = await this.box.open(row.name, row.sealed);
    if (opened.kind === 'locked') return false;
    const { secrets, headers } = opened.content;
    const sealed = await this.box.seal(row.name, { secrets: signingNow(secrets, now), headers });
    return this.store.change((tx) => this.store.reseal(row, sealed, tx));
  }
}
