import { Inject, Injectable } from '@nestjs/common';
import { ScheduledJobs } from '../../clock/scheduled-jobs.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { storedDefinition } from '../effective-definition.ts';
import { type ListenerRow, ListenersStore } from '../listeners-store.ts';
import { ConfidentialBox } from './confidential.ts';
import { isOldForm } from './sealed-box.ts';
import { signingNow } from './signing-secrets.ts';

/** Rarely: while a rotation is rolled out, replicas disagree about the first key and undo each other's work. */
const INTERVAL_MS = 60_000;
/** The previous version cannot read what this one seals: its replicas may be sending until an upgrade is complete. */
const UPGRADE_MS = 10 * 60_000;

/**
 * Reseals with the first master key what another key sealed, so that the other can be removed from SECRETS_KEYS; and what the
 * previous version sealed, which stored the URL unencrypted.
 */
@Injectable()
export class Reseal {
  private readonly startedAtMs = performance.now();

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly store: ListenersStore,
    private readonly box: ConfidentialBox,
    jobs: ScheduledJobs,
  ) {
    jobs.add({
      role: 'upkeep',
      name: 'listener-secrets',
      intervalMs: INTERVAL_MS,
      runAtStart: true,
      run: () => this.pass(),
    });
  }

  async pass(upgraded = performance.now() - this.startedAtMs >= UPGRADE_MS): Promise<void> {
    const { now } = await this.store.revision();
    const due = (await this.store.live()).filter(({ sealed }) => upgraded || !isOldForm(sealed));
    let listeners = 0;
    for (const row of due) if (await this.reseal(row, now)) listeners += 1;
    await this.store.forgetUrlsOfDeleted();
    if (listeners > 0)
      this.log.info(
        { event: 'secrets.resealed', listeners },
        'secrets were encrypted again, with the first key of SECRETS_KEYS',
      );
  }

  private async reseal(row: ListenerRow, now: Date): Promise<boolean> {
    if (!(await this.box.isOutdated(row.sealed))) return false;
    const opened = await this.box.open(row);
    if (opened.kind === 'locked') return false;
    const { secrets, url } = opened.content;
    const sealed = await this.box.seal(row.name, { ...opened.content, secrets: signingNow(secrets, now) });
    const definition = storedDefinition({ ...row.definition, ...(url ? { url } : {}) });
    return this.store.change((tx) => this.store.reseal(row, { sealed, definition }, tx));
  }
}
