import { type BeforeApplicationShutdown, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import type { Loop, Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { Activity, isIdle } from '../../telemetry/activity.ts';
import { ReplicaIdentity } from '../replicas/replica-identity.ts';
import { ActivityStore } from './activity-store.ts';

const SLOT_MS = 10_000;
/** Written a little after the end of a slot, so that it counts for that one by any clock. */
const DELAY_MS = 100;

/** Writes what this replica counted, once per slot of ten seconds. */
@Injectable()
export class ActivityWriter implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly loop: Loop;
  /** The row of the current stretch without any work. */
  private idleRow: number | undefined;

  constructor(
    private readonly activity: Activity,
    private readonly identity: ReplicaIdentity,
    private readonly store: ActivityStore,
    loops: Loops,
  ) {
    this.loop = loops.create('activity', SLOT_MS, () => this.write());
  }

  onApplicationBootstrap(): void {
    this.loop.start();
  }

  /** The loop first: it is over before the last counts are written. */
  async beforeApplicationShutdown(): Promise<void> {
    await this.loop.stop();
    if (!isIdle(this.activity.pending)) await this.write().catch(() => undefined);
  }

  private async write(): Promise<Next> {
    const counts = this.activity.take();
    try {
      const idle = isIdle(counts);
      const extended = idle && this.idleRow !== undefined ? await this.store.extend(this.idleRow) : undefined;
      const { id, msToNext } = extended ?? (await this.store.write(this.identity.id, counts));
      this.idleRow = idle ? id : undefined;
      return { afterMs: msToNext + DELAY_MS };
    } catch (error) {
      this.activity.giveBack(counts);
      throw error;
    }
  }
}
