import { setTimeout as pause } from 'node:timers/promises';
import { LEASE_MS } from './bed-settings.ts';
import { failOver } from './failover.ts';
import type { Version } from './fleet.ts';
import type { Fault, ScheduledFault } from './schedule.ts';
import type { TestBed } from './test-bed.ts';

const POINT_WAIT_MS = 5_000;
const BLACK_HOLE_MS = 6_000;
const DISK_FULL_MS = 3_000;
const REPLACED_WITHIN_MS = 15_000;

export interface InjectionContext {
  readonly bed: TestBed;
  /** The previous build; undefined: there is none. */
  readonly previous: Version | undefined;
}

type Injector = (scheduled: ScheduledFault, context: InjectionContext) => Promise<void>;

/** How each fault is injected; resolves when it is over. */
export const INJECTORS: Partial<Record<Fault, Injector>> = {
  'kill-at-point': async ({ slot, point }, { bed: { fleet } }) => {
    fleet.arm(fleet.replicas[slot]!, point, 'SIGKILL');
  },
  kill: async ({ slot }, { bed: { fleet } }) => fleet.signal(fleet.replicas[slot]!, 'SIGKILL'),
  term: async ({ slot }, { bed: { fleet } }) => fleet.requestStop(fleet.replicas[slot]!),
  'freeze-at-point': async ({ slot, point, forMs }, { bed: { fleet } }) => {
    const replica = fleet.replicas[slot]!;
    const reached = fleet.reached(replica, point, POINT_WAIT_MS);
    fleet.arm(replica, point, 'SIGSTOP');
    if (await reached) await pause(LEASE_MS + forMs / 2);
    fleet.thaw(replica);
  },
  freeze: async ({ slot, forMs }, { bed: { fleet } }) => fleet.freeze(fleet.replicas[slot]!, forMs),
  'postgres-fast': async (_, { bed }) => bed.options.postgres.restart('fast'),
  'postgres-immediate': async (_, { bed }) => bed.options.postgres.restart('immediate'),
  failover: async (_, { bed }) => failOver(bed),
  backends: async (_, { bed }) => {
    await bed.database.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE datname = current_database() AND application_name LIKE 'sluice%' AND application_name <> 'sluice chaos'
         AND pid % 2 = 0`,
    );
  },
  'cut-at-commit': async ({ slot, before }, { bed }) =>
    bed.proxies[slot]!.cutAtCommit(before ? 'before' : 'after'),
  'black-hole': async ({ slot }, { bed }) => {
    const proxy = bed.proxies[slot]!;
    proxy.blackHole();
    await pause(BLACK_HOLE_MS);
    proxy.closeBlackHoles();
  },
  outage: async ({ forMs }, { bed }) => {
    bed.setReceiverMode('down');
    await pause(forMs);
    bed.setReceiverMode('flaky');
  },
  'disk-full': async (_, { bed }) => {
    const { postgres } = bed.options;
    postgres.fillDisk();
    await pause(DISK_FULL_MS);
    postgres.freeDisk();
    await pause(500);
    await postgres.ensureRunning();
  },
  rolling: async (_, context) => roll(context),
};

/** Faults of one replica; they wait until it works. */
export const ON_ONE_REPLICA: readonly Fault[] = [
  'kill-at-point',
  'kill',
  'term',
  'freeze-at-point',
  'freeze',
  'cut-at-commit',
  'black-hole',
];

/** Faults that stop the database; they never overlap. */
export const ON_DATABASE: readonly Fault[] = ['postgres-fast', 'postgres-immediate', 'failover', 'disk-full'];

const rolling = new WeakSet<TestBed>();

/** Replaces one replica after the other while other faults go on. Only one rolling replacement runs at a time. */
async function roll({ bed, previous }: InjectionContext): Promise<void> {
  if (rolling.has(bed)) return;
  rolling.add(bed);
  const { fleet, options } = bed;
  for (const version of [previous!, options.version]) {
    for (const slot of fleet.slots) {
      slot.version = version;
      const before = fleet.replicas[slot.index]!;
      fleet.requestStop(before);
      await before.ended;
      await fleet.waitUntilTargetable(slot.index, REPLACED_WITHIN_MS);
    }
  }
  rolling.delete(bed);
}
