import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import type { Loop } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { VERSION } from '../../version.ts';
import { ReplicaIdentity } from './replica-identity.ts';
import { ReplicasStore } from './replicas-store.ts';

const BEAT_MS = 5_000;

/** Makes this replica known to all others. One that stops removes itself; one that crashes is no longer alive after 20 s. */
@Injectable()
export class Heartbeat implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly loop: Loop;

  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly identity: ReplicaIdentity,
    private readonly store: ReplicasStore,
    loops: Loops,
  ) {
    this.loop = loops.create('heartbeat', BEAT_MS, async () => {
      await this.beat();
      return 'idle';
    });
  }

  beat(): Promise<void> {
    return this.store.beat(this.identity, this.settings.roles, VERSION);
  }

  onApplicationBootstrap(): void {
    this.loop.start();
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.loop.stop();
    // If the database is away, the others notice nevertheless.
    await this.store.remove(this.identity.id).catch(() => undefined);
  }
}
