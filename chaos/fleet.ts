import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { type Logged, loggedIn, loggedOnStderr } from './logged.ts';
import type { Point } from './point-names.ts';
import type { PointCommand, PointReport, PointSignal } from './points.ts';

type State = 'starting' | 'working' | 'frozen' | 'leaving' | 'dead';

/** A build that replicas are started from. */
export interface Version {
  readonly name: string;
  /** The folder that compile.mjs created. */
  readonly folder: string;
  readonly previous: boolean;
}

/** A replica in its own process, in a slot with its own address. */
export interface Replica {
  readonly child: ChildProcess;
  readonly version: Version;
  /** Its last log lines, warnings and worse. */
  readonly lines: string[];
  /** Resolves when it accepts requests. */
  readonly ready: Promise<void>;
  /** Its exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>;
  state: State;
}

export interface Slot {
  readonly index: number;
  readonly url: string;
  readonly databaseUrl: string;
  /** Its clock is off. */
  readonly skewed: boolean;
  version: Version;
}

export interface FleetOptions {
  readonly settings: Record<string, string>;
  /** The guards that all replicas run without. */
  readonly without: readonly string[];
}

const LINES_KEPT = 200;
const SKEW = { CHAOS_SKEW_MS: '-90000', CHAOS_DRIFT: '0.98' };

/** The replicas. One that exits is restarted in its slot. */
export class Fleet {
  readonly replicas: Replica[] = [];
  readonly ends = { drained: 0, killed: 0, drainedTooLong: 0 };
  /** Exits that no fault caused. */
  readonly unexpectedExits: string[] = [];
  /** Log lines of the replicas that report an error; not those of the previous version, whose errors are known already. */
  readonly logged: Logged[] = [];
  private readonly waiting = new Set<(replica: Replica, report: PointReport) => void>();
  private over = false;

  constructor(
    readonly slots: readonly Slot[],
    private readonly options: FleetOptions,
  ) {}

  async startFirst(): Promise<void> {
    this.startIn(this.slots[0]!);
    await this.replicas[0]!.ready;
  }

  async startOthers(): Promise<void> {
    for (const slot of this.slots.slice(1)) this.startIn(slot);
    await Promise.all(this.replicas.map(({ ready }) => ready));
  }

  signal(replica: Replica, name: NodeJS.Signals): void {
    replica.child.kill(name);
  }

  async freeze(replica: Replica, forMs: number): Promise<void> {
    this.signal(replica, 'SIGSTOP');
    if (replica.state === 'working') replica.state = 'frozen';
    await pause(forMs);
    this.thaw(replica);
  }

  thaw(replica: Replica): void {
    this.signal(replica, 'SIGCONT');
    if (replica.state === 'frozen') replica.state = 'working';
  }

  /** Once: a second signal ends a replica in the middle of its drain. */
  requestStop(replica: Replica): void {
    if (['dead', 'leaving'].includes(replica.state)) return;
    replica.state = 'leaving';
    this.signal(replica, 'SIGTERM');
  }

  /** The replica sends itself the signal the next time it reaches the point. */
  arm(replica: Replica, point: Point, signal: PointSignal): void {
    this.send(replica, { arm: point, signal });
  }

  /** No point sends a signal any more. */
  disarm(): void {
    for (const replica of this.replicas) this.send(replica, { disarm: true });
  }

  /** Resolves when the replica has reached the point; false: it timed out. */
  reached(replica: Replica, point: Point, withinMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const finish = (reached: boolean) => {
        this.waiting.delete(listener);
        clearTimeout(timer);
        resolve(reached);
      };
      const listener = (who: Replica, report: PointReport) => {
        if (who !== replica || report.reached !== point) return;
        if (replica.state === 'working') replica.state = 'frozen';
        finish(true);
      };
      const timer = setTimeout(finish, withinMs, false);
      this.waiting.add(listener);
    });
  }

  get anyWorking(): boolean {
    return this.replicas.some(({ state }) => state === 'working');
  }

  /** Resolves when the replica of this slot works, and another one that can take over; false: it timed out. */
  async waitUntilTargetable(slot: number, withinMs: number): Promise<boolean> {
    const works = (index: number) => this.replicas[index]!.state === 'working';
    for (const deadline = Date.now() + withinMs; Date.now() < deadline; await pause(50)) {
      if (works(slot) && this.slots.some(({ index }) => index !== slot && works(index))) return true;
    }
    return false;
  }

  /** Every replica must drain and exit with code 0. Returns a description of each that does not. */
  async drain(withinMs: number): Promise<string[]> {
    await Promise.all(this.replicas.map(({ ready }) => ready.catch(() => undefined)));
    this.over = true;
    for (const replica of this.replicas) this.requestStop(replica);
    const timeout = new Promise<string>((resolve) => setTimeout(resolve, withinMs, 'a timeout').unref());
    const ends = await Promise.all(this.replicas.map(({ ended }) => Promise.race([ended, timeout])));
    return ends.flatMap((how, index) =>
      how === 0
        ? []
        : [
            `replica ${index} was asked to stop and ended with ${how}: ${this.replicas[index]!.lines.slice(-3).join('\n')}`,
          ],
    );
  }

  async end(): Promise<void> {
    this.over = true;
    for (const replica of this.replicas) this.signal(replica, 'SIGKILL');
    await Promise.all(this.replicas.map(({ ended }) => ended));
  }

  private send({ child }: Replica, command: PointCommand): void {
    if (child.connected) child.send(command, () => undefined);
  }

  private startIn(slot: Slot): void {
    const { version } = slot;
    const child = this.spawnIn(slot);
    const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string);
    const lines: string[] = [];
    const keepLine = (line: string) => {
      lines.push(line);
      if (lines.length > LINES_KEPT) lines.shift();
    };
    const note = (logged: Logged | undefined) => {
      if (logged && !version.previous) this.logged.push(logged);
    };
    const ready = new Promise<void>((resolve, reject) => {
      createInterface({ input: child.stdout! }).on('line', (line) => {
        if (line.includes('Sluice is serving')) resolve();
        else keepLine(line);
        note(loggedIn(line, slot.index, Date.now()));
      });
      void ended.then((how) =>
        reject(new Error(`the replica ended (${how}) before it accepted requests:\n${lines.join('\n')}`)),
      );
    });
    ready.catch(() => undefined);
    createInterface({ input: child.stderr! }).on('line', (line) => {
      keepLine(line);
      note(loggedOnStderr(line, slot.index, Date.now()));
    });
    const replica: Replica = { child, version, lines, ready, ended, state: 'starting' };
    this.replicas[slot.index] = replica;
    child.on('message', (report: PointReport) => {
      for (const listener of this.waiting) listener(replica, report);
    });
    ready.then(
      () => {
        if (replica.state === 'starting') replica.state = 'working';
      },
      () => undefined,
    );
    void ended.then((how) => this.ended(slot, replica, how));
  }

  private spawnIn({ version, skewed, databaseUrl, url }: Slot): ChildProcess {
    const preload = skewed ? ['--import', join(version.folder, 'chaos/skew.js')] : [];
    return spawn(process.execPath, [...preload, join(version.folder, 'chaos/replica.js')], {
      env: {
        PATH: process.env.PATH,
        ...this.options.settings,
        DATABASE_URL: databaseUrl,
        PORT: new URL(url).port,
        CHAOS_WITHOUT: this.options.without.join(','),
        ...(skewed ? SKEW : {}),
        ...(version.previous ? { CHAOS_PREVIOUS: 'yes' } : {}),
      },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
  }

  private ended(slot: Slot, replica: Replica, how: number | string): void {
    const starting = replica.state === 'starting';
    const drained = replica.state === 'leaving' && (how === 0 || how === 'SIGTERM');
    replica.state = 'dead';
    if (drained) this.ends.drained += 1;
    else if (how === 'SIGKILL') this.ends.killed += 1;
    // DRAIN_TIMEOUT ended it: that limit exists for a database that is unavailable.
    else if (replica.lines.some((line) => line.includes('service.drain-timeout')))
      this.ends.drainedTooLong += 1;
    // A start without a database logs that and exits; an orchestrator restarts it, and so does the fleet.
    else if (!starting)
      this.unexpectedExits.push(
        `replica ${slot.index} ended with ${how}: ${replica.lines.slice(-3).join('\n')}`,
      );
    if (!this.over) setTimeout(() => this.over || this.startIn(slot), starting ? 500 : 0);
  }
}
