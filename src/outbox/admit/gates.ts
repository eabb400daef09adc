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

/** Twice as long each time, up to the max. */
export interface Openings {
  readonly firstMs: number;
  readonly maxMs: number;
}
/** Min length of a pause, whatever was asked for: doubled with each one in a row, up to the max. */
const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 300_000;

/** The right to try a circuit with one delivery. */
export type Probe = string;

interface Gate {
  /** Until the listener may be sent to again, or its circuit may be probed. */
  readonly untilMs: number;
  readonly openings: number;
  /** Pauses in a row, without a successful delivery in between. */
  readonly pauses: number;
}

/** A gate as the database returns it: its time counted from now. */
type GateRow = Omit<Gate, 'untilMs'> & { readonly listener: number; readonly ms: number };

/**
 * Listeners that no replica sends to for a while: they asked for a pause, or their circuit is open. Read from memory, as of
 * the last refresh; changes by this replica are visible at once.
 */
@Injectable()
export class Gates {
  private gates = new Map<number, Gate>();
  /** Changed by this replica since the last refresh began: the rows it returns are older. */
  private readonly changed = new Set<number>();

  constructor(private readonly database: Database) {}

  async refresh(): Promise<void> {
    this.changed.clear();
    const rows = await this.database.query<GateRow>(GATES);
    const gates = new Map(rows.map((row) => [row.listener, gateOf(row)]));
    for (const listener of this.changed) {
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

  /** Listeners whose circuit may be tried with one delivery, by the replica that takes the probe. */
  halfOpen(): number[] {
    const now = performance.now();
    return [...this.gates].flatMap(([listener, { openings, untilMs }]) =>
      openings > 0 && untilMs <= now ? [listener] : [],
    );
  }

  /** Milliseconds until the next listener may be sent to again or probed; infinite if there is none. */
  nextMs(): number {
    const now = performance.now();
    const later = [...this.gates.values()].flatMap(({ untilMs }) => (untilMs > now ? [untilMs - now] : []));
    return Math.min(Number.POSITIVE_INFINITY, ...later);
  }

  async pause(listener: number, ms: number, reason: string, probe: boolean): Promise<void> {
    const known = this.gates.get(listener);
    const untilMs = Math.max(known?.untilMs ?? 0, performance.now() + ms);
    this.remember(listener, { untilMs, openings: known?.openings ?? 0, pauses: known?.pauses ?? 0 });
    await this.change(PAUSE, [listener, Math.round(ms), reason, probe, FIRST_PAUSE_MS, MAX_PAUSE_MS]);
  }

  /** Whether the listener asked for a pause, and nothing was delivered since. */
  hasPaused(listener: number): boolean {
    return (this.gates.get(listener)?.pauses ?? 0) > 0;
  }

  async forgetPauses(listener: number): Promise<void> {
    const known = this.gates.get(listener);
    // Set first, so that it is written once, however many deliveries succeed meanwhile.
    if (known) this.remember(listener, { ...known, pauses: 0 });
    await this.change(FORGET_PAUSES, [listener]);
  }

  async openCircuit(listener: number, { firstMs, maxMs }: Openings, reason: string): Promise<void> {
    await this.change(OPEN_CIRCUIT, [listener, firstMs, maxMs, reason]);
  }

  /** Undefined: another replica has the probe. */
  async takeProbe(listener: number, ms: number): Promise<Probe | undefined> {
    const taken = await this.change<{ probe: Probe }>(TAKE_PROBE, [listener, ms]);
    return taken?.probe;
  }

  async returnProbe(listener: number, ms: number, probe: Probe): Promise<void> {
    await this.change(RETURN_PROBE, [listener, ms, probe]);
  }

  async probeFailed(
    listener: number,
    { firstMs, maxMs }: Openings,
    reason: string,
    probe: Probe,
  ): Promise<void> {
    await this.change(PROBE_FAILED, [listener, firstMs, maxMs, reason, probe]);
  }

  async closeCircuit(listener: number): Promise<void> {
    if ((await this.change(CLOSE_CIRCUIT, [listener])) === undefined) this.forget(listener);
  }

  /** Removes a gate that is older than the last change of the listener; a newer one, set by any replica, stays. */
  async startOver(listener: number): Promise<void> {
    const removed = await this.database.execute(REMOVE_OLDER_GATE, [listener]);
    if (removed > 0) this.forget(listener);
  }

  private async change<More>(
    statement: string,
    values: readonly unknown[],
  ): Promise<(GateRow & More) | undefined> {
    const [row] = await this.database.query<GateRow & More>(statement, values);
    if (row) this.remember(row.listener, gateOf(row));
    return row;
  }

  private forget(listener: number): void {
    this.changed.add(listener);
    this.gates.delete(listener);
  }

  private remember(listener: number, gate: Gate): void {
    this.changed.add(listener);
    this.gates.set(listener, gate);
  }
}

function gateOf({ ms, openings, pauses }: GateRow): Gate {
  return { untilMs: performance.now() + Number(ms), openings, pauses };
}
