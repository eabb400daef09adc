import { POINTS, type Point } from './point-names.ts';
import { Random } from './random.ts';

/** What can happen to a run. `weight`: how often, beside the others; 0: all the time, not at moments. */
export const FAULTS = {
  'kill-at-point': { weight: 6, says: 'kill -9 when a replica comes to a named point of the pipeline' },
  kill: { weight: 2, says: 'kill -9 at any moment' },
  term: { weight: 2, says: 'SIGTERM: it drains, another takes its place' },
  'freeze-at-point': { weight: 4, says: 'SIGSTOP at a named point, past the lease' },
  freeze: { weight: 2, says: 'SIGSTOP at any moment, up to two leases and a half' },
  'postgres-fast': { weight: 1, says: 'PostgreSQL is restarted, fast' },
  'postgres-immediate': { weight: 1, says: 'PostgreSQL is restarted, immediate: it recovers from its log' },
  failover: {
    weight: 0.5,
    says: 'kill -9 of PostgreSQL; its standby, which commits wait for, takes over and gets one of its own',
  },
  backends: { weight: 2, says: 'half of the connections are ended by the server' },
  'cut-at-commit': {
    weight: 4,
    says: 'the wire is cut at a COMMIT: before it arrives, or before its answer does',
  },
  'black-hole': { weight: 1, says: 'the wire of one replica swallows everything for 6 s' },
  outage: { weight: 1, says: 'the moody receiver fails always, for some seconds' },
  'disk-full': { weight: 0.5, says: 'nothing can be written to the disk for 3 s' },
  rolling: { weight: 0.5, says: 'replicas are replaced one by one by the version before, and back' },
  receivers: {
    weight: 0,
    says: 'one receiver hangs, resets, answers 500, 429, garbage or drips, every third time',
  },
  poison: {
    weight: 0,
    says: 'messages that always fail, are refused, kill their process or cut its connection',
  },
  skew: { weight: 0, says: 'the clock of one replica is 90 s late and 2 % slow' },
} as const;

export type Fault = keyof typeof FAULTS;

/** One blow, decided beforehand. */
export interface Blow {
  readonly atMs: number;
  readonly fault: Fault;
  /** Which replica. */
  readonly place: number;
  readonly point: Point;
  readonly forMs: number;
  readonly before: boolean;
}

export interface ScheduleOptions {
  readonly seed: number;
  readonly seconds: number;
  readonly replicas: number;
  readonly faults: readonly Fault[];
  /** Between two blows, on average. */
  readonly everyMs: number;
  readonly leaseMs: number;
}

/** The same for the same options. Each fault once first, in any order; then by chance. */
export function schedule(options: ScheduleOptions): Blow[] {
  const { seed, seconds, replicas, faults, everyMs, leaseMs } = options;
  const random = new Random(seed);
  const first = shuffled(
    faults.filter((fault) => FAULTS[fault].weight > 0),
    random,
  );
  const blows: Blow[] = [];
  for (let atMs = everyMs; ; ) {
    atMs += random.between(0.2, 1.8) * everyMs;
    const fault = first.pop() ?? chosen(faults, random);
    const blow = {
      atMs: Math.round(atMs),
      fault,
      place: random.below(replicas),
      point: random.one(POINTS),
      forMs: Math.round(random.between(0.5, 2.5) * leaseMs),
      before: random.chance(0.5),
    };
    if (atMs > seconds * 1_000 || FAULTS[fault].weight === 0) return blows;
    blows.push(blow);
  }
}

function shuffled<T>(items: readonly T[], random: Random): T[] {
  const left = [...items];
  return items.map(() => left.splice(random.below(left.length), 1)[0]!);
}

function chosen(faults: readonly Fault[], random: Random): Fault {
  const total = faults.reduce((sum, fault) => sum + FAULTS[fault].weight, 0);
  let lot = random.next() * total;
  for (const fault of faults) {
    lot -= FAULTS[fault].weight;
    if (lot < 0) return fault;
  }
  return faults[0]!;
}
