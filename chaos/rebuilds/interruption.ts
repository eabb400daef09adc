import type { Replica } from '../fleet.ts';
import type { Point } from '../point-names.ts';
import type { TestBed } from '../test-bed.ts';

/** The latest rebuild as the API shows it. */
export interface RebuildState {
  readonly id: string;
  readonly status: string;
  readonly paused: boolean;
  readonly done: number;
  readonly waitsFor?: string;
  readonly failure?: { readonly error: string; readonly id?: string };
}

const POINT: Point = 'rebuild: applied, not committed yet';
const WITHIN_MS = 5_000;
const WORKING = ['replaying', 'comparing', 'ready', 'switching', 'switched', 'rolled-back'];

/** Kills a replica in the middle of a rebuild, and watches whether the rebuild goes on. */
export class Interruption {
  /** Rebuilds that went on after the replica that worked on them was killed. */
  wentOn = 0;
  killed = 0;
  /** The rebuild, and how far it was when the replica died. */
  private at: { readonly id: string; readonly done: number } | undefined;
  private isArmed = false;

  constructor(private readonly bed: TestBed) {}

  /** A working replica, which is killed when it has applied a batch of a rebuild, before it commits; undefined: not now. */
  arm(): Replica | undefined {
    const replica = this.bed.fleet.replicas.find(({ state }) => state === 'working');
    if (!replica || this.isArmed) return undefined;
    this.isArmed = true;
    void this.kill(replica).finally(() => {
      this.isArmed = false;
    });
    return replica;
  }

  note({ id, status, done }: RebuildState): void {
    if (this.at?.id !== id || !WORKING.includes(status)) return;
    if (status === 'replaying' && done <= this.at.done) return;
    this.at = undefined;
    this.wentOn += 1;
  }

  private async kill(replica: Replica): Promise<void> {
    const { bed } = this;
    const reached = bed.fleet.reached(replica, POINT, WITHIN_MS);
    bed.fleet.arm(replica, POINT, 'SIGKILL');
    if (!(await reached)) return;
    await bed.inject('kill', bed.fleet.replicas.indexOf(replica), async () => void (await replica.ended));
    this.killed += 1;
    const [open] = await bed.database.query<{ id: string; done: number }>(
      `SELECT id::text, (SELECT sum(done)::int FROM rebuild_lane WHERE rebuild = rebuild.id) AS done
       FROM rebuild WHERE ended_at IS NULL`,
    );
    this.at = open;
  }
}
