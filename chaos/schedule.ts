import { POINTS, type Point } from './point-names.ts';
import { Random } from './random.ts';

/** The faults of a run. `weight`: how often relative to the others; 0: active during the whole run instead of at single moments. */
export const FAULTS = {
  'kill-at-point': { weight: 6, description: 'kill -9 when a replica reaches a named point of the pipeline' },
  kill: { weight: 2, description: 'kill -9 at any moment' },
  term: { weight: 2, description: 'SIGTERM: the replica drains and is replaced' },
  'freeze-at-point': { weight: 4, description: 'SIGSTOP at a named point, for longer than the lease' },
  freeze: { weight: 2, description: 'SIGSTOP at any moment, for up to two and a half leases' },
  'postgres-fast': { weight: 1, description: 'PostgreSQL is restarted, shutdown mode fast' },
  'postgres-immediate': {
    weight: 1,
    description: 'PostgreSQL is restarted, shutdown mode immediate: it recovers from its WAL',
  },
  failover: {
    weight: 0.5,
    description: 'kill -9 of PostgreSQL; its synchronous standby takes over and gets a standby of its own',
  },
  backends: { weight: 2, description: 'the server terminates half of the connections' },
  'cut-at-commit': {
    weight: 4,
    description: 'a connection is cut at a COMMIT: before it arrives, or before its response does',
  },
  'black-hole': { weight: 1, description: 'the network of one replica drops everything for 6 s' },
  outage: { weight: 1, description: 'the flaky receiver always fails, for some seconds' },
  'disk-full': { weight: 0.5, description: 'nothing can be written to the disk for 3 s' },
  rolling: { weight: 0.5, description: 'replicas are replaced one by one by the previous version, and back' },
  receivers: {
    weight: 0,
    description: 'every third time one receiver hangs, resets, drips, or returns 500, 429 or garbage',
  },
  poison: {
    weight: 0,
    description: 'messages that always fail, are refused, kill their process or cut its connection',
  },
  consumers: {
    weight: 0,
    description:
      'consumers are killed (by messages, too), freeze, hang up, leave and join again, move their offsets back',
  },
  additions: {
    weight: 0,
    description: 'topics, groups and work queues are created in the middle of the run',
  },
  operator: {
    weight: 0,
    description: 'an operator revives, discards, replays, pauses, rotates secrets, changes a schedule',
  },
  rebuilds: {
    weight: 0,
    description:
      'the read model is rebuilt, switched, rolled back, paused, cancelled; a replica is killed in it; messages move to history',
  },
  skew: { weight: 0, description: 'the clock of one replica is 90 s behind and 2 % slow' },
} as const;

export type Fault = keyof typeof FAULTS;

/** One fault of a run, decided before the run starts. */
export interface ScheduledFault {
  readonly atMs: number;
  readonly fault: Fault;
  /** Which replica. */
  readonly slot: number;
  readonly point: Point;
  readonly forMs: number;
  /** Of `cut-at-commit`: before the COMMIT arrives, not before its response does. */
  readonly before: boolean;
}

export interface ScheduleOptions {
  readonly seed: number;
  readonly seconds: number;
  readonly replicas: number;
  readonly faults: readonly Fault[];
  /** Between two faults, on average. */
  readonly everyMs: number;
  readonly leaseMs: number;
}

/** Deterministic: the same for the same options. First each fault once, in random order; then weighted random. */
export function schedule(options: ScheduleOptions): ScheduledFault[] {
  const { seed, seconds, replicas, faults, everyMs, leaseMs } = options;
  const random = new Random(seed);
  const first = shuffled(
    faults.filter((fault) => FAULTS[fault].weight > 0),
    random,
  );
  const result: ScheduledFault[] = [];
  for (let atMs = everyMs; ; ) {
    atMs += random.between(0.2, 1.8) * everyMs;
    const fault = first.pop() ?? weighted(faults, random);
    const scheduled = {
      atMs: Math.round(atMs),
      fault,
      slot: random.below(replicas),
      point: random.one(POINTS),
      forMs: Math.round(random.between(0.5, 2.5) * leaseMs),
      before: random.chance(0.5),
    };
    if (atMs > seconds * 1_000 || FAULTS[fault].weight === 0) return result;
    result.push(scheduled);
  }
}

function shuffled<T>(items: readonly T[], random: Random): T[] {
  const left = [...items];
  return items.map(() => left.splice(random.below(left.length), 1)[0]!);
}

function weighted(faults: readonly Fault[], random: Random): Fault {
  const total = faults.reduce((sum, fault) => sum + FAULTS[fault].weight, 0);
  let draw = random.next() * total;
  for (const fault of faults) {
    draw -= FAULTS[fault].weight;
    if (draw < 0) return fault;
  }
  return faults[0]!;
}
