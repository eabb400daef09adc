import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import {
  CLOSE_CIRCUIT,
  FORGET_PAUSES,
  GATES,
  OPEN_CIRCUIT,
  PAUSE,
  PROBE_FAILED,
  REMOVE_OLDER_GATE,
  RETURN_PROBE,
  TAKE_PROBE,
} from './gates.sql.ts';

const FIRST_OPENING_MS = 30_000;
const MAX_OPENING_MS = 600_000;
/** How long a pause is at least, whatever was asked for: doubled with each in a row, up to the longest. */
const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 300_000;

/** As the database tells it. */
interface Standing {
  readonly listener: number;
  readonly openings: number;
  /** In a row, without a delivery in between. */
  readonly pauses: number;
  /** Until it may be sent to again, or its circuit may be tried. */
  readonly ms: number;
}

/** The right to try a circuit, once. */
export type Probe = string;

interface Gate {
  readonly untilMs: number;
  readonly openings: number;
  readonly pauses: number;
}

/**
 * Listeners that are not sent to for a while, on any replica: they asked for it, or their circuit is open. Known from
 * memory, as of the last look; what this replica learns itself it knows at once.
 */
@Injectable()
export class Gates {
  private gates = new Map<number, Gate>();
  /** Changed by us since the last look began: what it brings is older. */
  private readonly fresh = new Set<number>();

  constructor(private readonly database: Database) {}

  async refresh(): Promise<void> {
    this.fresh.clear();
    const rows = await this.database.query<Standing>(GATES);
    const gates = new Map(rows.map((row) => [row.listener, gateOf(row)]));
    for (const listener of this.fresh) {
      const known = this.gates.get(listener);
      if (known) gates.set(listener, known);
      else gates.delete(listener);
    }
    this.gates = gates;
  }

  isClosed(listener: number): boolean {
    const gate = this.gates.get(listener);
    return gate !== undefined && (gate.openings > 0 || gate.untilMs > performance.now());
  }

  closed(): number[] {
    return [...this.gates.keys()].filter((listener) => this.isClosed(listener));
  }

  /** Circuits that may be tried with one delivery, by whoever takes the probe. */
  halfOpen(): number[] {
    const now = performance.now();
    return [...this.gates].flatMap(([listener, { openings, untilMs }]) =>
      openings > 0 && untilMs <= now ? [listener] : [],
    );
  }

  /** Milliseconds until the next one may be sent to again, or tried; infinite: none waits for a time. */
  nextMs(): number {
    const now = performance.now();
    const later = [...this.gates.values()].flatMap(({ untilMs }) => (untilMs > now ? [untilMs - now] : []));
    return Math.min(Number.POSITIVE_INFINITY, ...later);
  }

  async pause(listener: number, ms: number, reason: string, probe: boolean): Promise<void> {
    const known = this.gates.get(listener);
    const untilMs = Math.max(known?.untilMs ?? 0, performance.now() + ms);
    this.know(listener, { untilMs, openings: known?.openings ?? 0, pauses: known?.pauses ?? 0 });
    await this.change(PAUSE, [listener, Math.round(ms), reason, probe, FIRST_PAUSE_MS, MAX_PAUSE_MS]);
  }

  /** Whether it asked for a pause, and nothing was delivered since then. */
  hasPaused(listener: number): boolean {
    return (this.gates.get(listener)?.pauses ?? 0) > 0;
  }

  async forgetPauses(listener: number): Promise<void> {
    const known = this.gates.get(listener);
    // Once is enough, however many are delivered while it is written.
    if (known) this.know(listener, { ...known, pauses: 0 });
    await this.change(FORGET_PAUSES, [listener]);
  }

  async openCircuit(listener: number, reason: string): Promise<void> {
    await this.change(OPEN_CIRCUIT, [listener, FIRST_OPENING_MS, MAX_OPENING_MS, reason]);
  }

  /** Undefined: somebody else has it. */
  async takeProbe(listener: number, ms: number): Promise<Probe | undefined> {
    const taken = await this.change<{ probe: Probe }>(TAKE_PROBE, [listener, ms]);
    return taken?.probe;
  }

  async returnProbe(listener: number, ms: number, probe: Probe): Promise<void> {
    await this.change(RETURN_PROBE, [listener, ms, probe]);
  }

  async probeFailed(listener: number, reason: string, probe: Probe): Promise<void> {
    await this.change(PROBE_FAILED, [listener, FIRST_OPENING_MS, MAX_OPENING_MS, reason, probe]);
  }

  async closeCircuit(listener: number): Promise<void> {
    if ((await this.change(CLOSE_CIRCUIT, [listener])) === undefined) this.forget(listener);
  }

  /** Forgets what was known before the listener was changed; what any replica has learnt since stays. */
  async startOver(listener: number): Promise<void> {
    const removed = await this.database.execute(REMOVE_OLDER_GATE, [listener]);
    if (removed > 0) this.forget(listener);
  }

  private async change<More>(
    statement: string,
    values: readonly unknown[],
  ): Promise<(Standing & More) | undefined> {
    const [row] = await this.database.query<Standing & More>(statement, values);
    if (row) this.know(row.listener, gateOf(row));
    return row;
  }

  private forget(listener: number): void {
    this.fresh.add(listener);
    this.gates.delete(listener);
  }

  private know(listener: number, gate: Gate): void {
    this.fresh.add(listener);
    this.gates.set(listener, gate);
  }
}

function gateOf({ ms, openings, pauses }: Standing): Gate {
  return { untilMs: performance.now() + Number(ms), openings, pauses };
}
