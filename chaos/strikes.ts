import { setTimeout as pause } from 'node:timers/promises';
import { failOver } from './failover.ts';
import type { Version } from './fleet.ts';
import { type Ground, LEASE_MS } from './ground.ts';
import type { Blow, Fault } from './schedule.ts';

const POINT_WAIT_MS = 5_000;
const HOLE_MS = 6_000;
const FULL_MS = 3_000;
const REPLACED_WITHIN_MS = 15_000;

export interface Surroundings {
  readonly ground: Ground;
  /** The build of the commit before; undefined: there is none. */
  readonly previous: Version | undefined;
}

type Strike = (blow: Blow, around: Surroundings) => Promise<void>;

/** How each fault is done; resolves when it is over. */
export const STRIKES: Partial<Record<Fault, Strike>> = {
  'kill-at-point': async ({ place, point }, { ground: { fleet } }) => {
    fleet.arm(fleet.replicas[place]!, point, 'SIGKILL');
  },
  kill: async ({ place }, { ground: { fleet } }) => fleet.signal(fleet.replicas[place]!, 'SIGKILL'),
  term: async ({ place }, { ground: { fleet } }) => fleet.ask(fleet.replicas[place]!),
  'freeze-at-point': async ({ place, point, forMs }, { ground: { fleet } }) => {
    const replica = fleet.replicas[place]!;
    const reached = fleet.reached(replica, point, POINT_WAIT_MS);
    fleet.arm(replica, point, 'SIGSTOP');
    if (await reached) await pause(LEASE_MS + forMs / 2);
    fleet.thaw(replica);
  },
  freeze: async ({ place, forMs }, { ground: { fleet } }) => fleet.freeze(fleet.replicas[place]!, forMs),
  'postgres-fast': async (_, { ground }) => ground.options.postgres.restart('fast'),
  'postgres-immediate': async (_, { ground }) => ground.options.postgres.restart('immediate'),
  failover: async (_, { ground }) => failOver(ground),
  backends: async (_, { ground }) => {
    await ground.database.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE datname = current_database() AND application_name LIKE 'sluice%' AND application_name <> 'sluice chaos'
         AND pid % 2 = 0`,
    );
  },
  'cut-at-commit': async ({ place, before }, { ground }) =>
    ground.wires[place]!.cutAtCommit(before ? 'before' : 'after'),
  'black-hole': async ({ place }, { ground }) => {
    const wire = ground.wires[place]!;
    wire.blackHole();
    await pause(HOLE_MS);
    wire.breakHoles();
  },
  outage: async ({ forMs }, { ground }) => {
    ground.setMood('down');
    await pause(forMs);
    ground.setMood('moody');
  },
  'disk-full': async (_, { ground }) => {
    const { postgres } = ground.options;
    postgres.fillDisk();
    await pause(FULL_MS);
    postgres.freeDisk();
    await pause(500);
    await postgres.ensureRunning();
  },
  rolling: async (_, around) => roll(around),
};

/** Those that fall on one replica wait until it works. */
export const ON_ONE: readonly Fault[] = [
  'kill-at-point',
  'kill',
  'term',
  'freeze-at-point',
  'freeze',
  'cut-at-commit',
  'black-hole',
];

/** Those that stop the database wait for each other. */
export const ALONE: readonly Fault[] = ['postgres-fast', 'postgres-immediate', 'failover', 'disk-full'];

const rolling = new WeakSet<Ground>();

/** One after the other, whatever else happens meanwhile; one such change at a time. */
async function roll({ ground, previous }: Surroundings): Promise<void> {
  if (rolling.has(ground)) return;
  rolling.add(ground);
  const { fleet, options } = ground;
  for (const version of [previous!, options.version]) {
    for (const place of fleet.places) {
      place.version = version;
      const before = fleet.replicas[place.index]!;
      fleet.ask(before);
      await before.ended;
      await fleet.canBeStruck(place.index, REPLACED_WITHIN_MS);
    }
  }
  rolling.delete(ground);
}
