/** A lane whose holders crashed this often in a row is suspect: its messages are processed one at a time. */
export const SUSPECT_AFTER = 2;
/** From this many crashes on, the message that was in flight is charged: it was the only one claimed from a suspect lane. */
export const CHARGED_AFTER = SUSPECT_AFTER + 1;
/** More crashes than a lane's row counts. */
export const NEVER_CHARGED = 32_000;

/**
 * However empty the other lanes are, a lane with a long backlog gets no more than this part of a claim: the messages of a
 * key are applied one after the other, and the whole batch waits for the last. Measured with 90 % of the messages on one
 * key: the rate of the other keys, relative to their rate without those messages (medians of eight rounds), was 0.83 with a
 * quarter, 0.85 with an eighth, 0.92 with a sixteenth.
 */
const MIN_SHARES = 16;

/**
 * How many ready rows of a lane a claim reads while it finds rows to park; the other rows of the claim wait for that.
 * Measured with 500,000 rows behind a held key: the rate of the other keys, relative to their rate without those rows, was
 * 0.89–0.91 with 1,000 and 0.93 with 500.
 */
const PARKING_WINDOW = 500;

/** Lanes held by one worker, under one token, for a while. */
export interface Lease extends ClaimStats {
  readonly token: string;
  /** Lanes still held; lanes that are lost, released or handed over are removed. */
  readonly lanes: Set<number>;
  /** The lease of a suspect lane: one message at a time, to find the one that crashes its process. */
  readonly oneAtATime: boolean;
  /** Of a suspect lane: the messages up to this position were in flight when the last holder crashed. */
  readonly suspectsUpTo: number;
  /** By this process's monotonic clock; half of the lease is over then. */
  renewAtMs: number;
}

/** What the last claim of a lease found; the limits of the next one depend on it. */
export interface ClaimStats {
  /** Lanes that filled their share of it: the next claim is shared among that many. */
  busyLanes: number;
  /** It found rows of held keys. */
  parking: boolean;
  /** There may be more: it reached its limit, in total or of some lane, or it parked rows. */
  more: boolean;
}

/** How much one claim may take. */
export interface ClaimLimits {
  readonly maxRows: number;
  /** Max rows of each lane. */
  readonly perLane: number;
  /** How many ready rows of each lane are read. */
  readonly window: number;
}

/** Another replica holds the lanes now: nothing of this work may take effect. */
export class LeaseLost extends Error {
  constructor(readonly lanes: readonly number[]) {
    super(`lost lanes ${lanes.join(', ')}`);
    this.name = 'LeaseLost';
  }
}

export function newLease(
  token: string,
  lanes: readonly { readonly lane: number }[],
  renewAtMs: number,
  rest: Partial<Lease>,
): Lease {
  return {
    token,
    lanes: new Set(lanes.map(({ lane }) => lane)),
    oneAtATime: false,
    suspectsUpTo: 0,
    renewAtMs,
    ...beforeAnyClaim(lanes.length),
    ...rest,
  };
}

function beforeAnyClaim(lanes: number): ClaimStats {
  return { busyLanes: lanes, parking: false, more: true };
}

/** Removes the lanes first: a renewal in flight would take them for lost. If `give` fails, they are added back. */
export async function removeLanes(
  { lanes: held }: Pick<Lease, 'lanes'>,
  lanes: readonly number[],
  give: () => Promise<unknown>,
): Promise<void> {
  for (const lane of lanes) held.delete(lane);
  try {
    await give();
  } catch (error) {
    for (const lane of lanes) held.add(lane);
    throw error;
  }
}

/**
 * Shares a claim among its lanes, or among as many as were busy in the last one: nearly empty lanes leave their share to the
 * others. Throws on a bad count: one that is not a number would fail in the database, far from the code that computed it.
 */
export function claimLimits(
  { maxRows, maxPerLane = maxRows }: { readonly maxRows: number; readonly maxPerLane?: number | undefined },
  lanes: number,
  { busyLanes, parking } = beforeAnyClaim(lanes),
): ClaimLimits {
  requireCounts({ lanes, maxRows, maxPerLane, busyLanes });
  const shares = Math.min(Math.max(busyLanes, MIN_SHARES), lanes);
  const perLane = Math.max(1, Math.min(maxPerLane, Math.floor(maxRows / shares)));
  return { maxRows, perLane, window: parking ? Math.max(perLane, PARKING_WINDOW) : perLane };
}

function requireCounts(counts: Readonly<Record<string, number>>): void {
  for (const [name, count] of Object.entries(counts)) {
    if (!Number.isSafeInteger(count) || count < 1)
      throw new RangeError(`a claim needs a positive whole number of ${name}, not ${count}`);
  }
}

/** The result of a claim whose lanes are all lost. */
export const NOTHING_TO_CLAIM: ClaimStats = { busyLanes: 1, parking: false, more: false };

export function statsAfter(
  { maxRows, perLane }: ClaimLimits,
  lanes: number,
  { rows, parked }: { readonly rows: readonly { readonly lane: number }[]; readonly parked: number },
): ClaimStats {
  const evenShare = Math.min(perLane, Math.floor(maxRows / lanes));
  return {
    busyLanes: Math.max(1, lanesWith(evenShare, rows)),
    parking: parked > 0,
    more: parked > 0 || rows.length >= maxRows || lanesWith(perLane, rows) > 0,
  };
}

/** How many lanes returned at least this many rows; lanes without rows do not count. */
function lanesWith(count: number, rows: readonly { readonly lane: number }[]): number {
  const counts = new Map<number, number>();
  for (const { lane } of rows) counts.set(lane, (counts.get(lane) ?? 0) + 1);
  return [...counts.values()].filter((own) => own >= count).length;
}
