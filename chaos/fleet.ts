import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { type Logged, loggedIn, loggedOnStderr } from './logged.ts';
import type { Point } from './point-names.ts';
import type { Blow, News, Order } from './points.ts';

type State = 'starting' | 'working' | 'frozen' | 'leaving' | 'dead';

/** Where a replica is started from. */
export interface Version {
  readonly name: string;
  /** A folder that compile.mjs made. */
  readonly folder: string;
  readonly previous: boolean;
}

/** A replica in a process of its own, in a place with an address of its own. */
export interface Replica {
  readonly child: ChildProcess;
  readonly version: Version;
  /** Its last log lines, warnings and worse. */
  readonly lines: string[];
  /** Resolves when it serves. */
  readonly ready: Promise<void>;
  /** Its exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>;
  state: State;
}

export interface Place {
  readonly index: number;
  readonly url: string;
  readonly databaseUrl: string;
  /** Its clock is wrong. */
  readonly skewed: boolean;
  version: Version;
}

export interface FleetOptions {
  readonly settings: Record<string, string>;
  /** Guards that all do without. */
  readonly without: readonly string[];
}

const LINES_KEPT = 200;
const SKEW = { CHAOS_SKEW_MS: '-90000', CHAOS_DRIFT: '0.98' };

/** The replicas. Whoever dies is started again in its place. */
export class Fleet {
  readonly replicas: Replica[] = [];
  readonly ends = { asked: 0, killed: 0, drainedTooLong: 0 };
  /** Ends that nobody caused. */
  readonly faults: string[] = [];
  /** What went wrong in them, as they wrote it; not what the version before writes, whose faults are known by now. */
  readonly logged: Logged[] = [];
  private readonly waiting = new Set<(replica: Replica, news: News) => void>();
  private over = false;

  constructor(
    readonly places: readonly Place[],
    private readonly options: FleetOptions,
  ) {}

  async startFirst(): Promise<void> {
    this.startIn(this.places[0]!);
    await this.replicas[0]!.ready;
  }

  async startOthers(): Promise<void> {
    for (const place of this.places.slice(1)) this.startIn(place);
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

  ask(replica: Replica): void {
    if (replica.state === 'dead') return;
    replica.state = 'leaving';
    this.signal(replica, 'SIGTERM');
  }

  /** The next time it comes to the point it is struck there. */
  arm(replica: Replica, point: Point, blow: Blow): void {
    this.tell(replica, { arm: point, blow });
  }

  /** Nobody is struck any more. */
  disarm(): void {
    for (const replica of this.replicas) this.tell(replica, { disarm: true });
  }

  /** Resolves when the replica has come to the point; false: it did not in time. */
  reached(replica: Replica, point: Point, withinMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const tell = (came: boolean) => {
        this.waiting.delete(look);
        clearTimeout(timer);
        resolve(came);
      };
      const look = (who: Replica, news: News) => {
        if (who !== replica || news.reached !== point) return;
        if (replica.state === 'working') replica.state = 'frozen';
        tell(true);
      };
      const timer = setTimeout(tell, withinMs, false);
      this.waiting.add(look);
    });
  }

  get able(): boolean {
    return this.replicas.some(({ state }) => state === 'working');
  }

  /** Resolves when this one works and another one too, so that somebody goes on; false: not in time. */
  async canBeStruck(place: number, withinMs: number): Promise<boolean> {
    const works = (index: number) => this.replicas[index]!.state === 'working';
    for (const deadline = Date.now() + withinMs; Date.now() < deadline; await pause(50)) {
      if (works(place) && this.places.some(({ index }) => index !== place && works(index))) return true;
    }
    return false;
  }

  /** Each leaves in order, with exit code 0; answers with what did not. */
  async drain(withinMs: number): Promise<string[]> {
    await Promise.all(this.replicas.map(({ ready }) => ready.catch(() => undefined)));
    this.over = true;
    for (const replica of this.replicas) this.ask(replica);
    const late = new Promise<string>((resolve) => setTimeout(resolve, withinMs, 'nothing').unref());
    const ends = await Promise.all(this.replicas.map(({ ended }) => Promise.race([ended, late])));
    return ends.flatMap((how, index) =>
      how === 0
        ? []
        : [
            `replica ${index} was asked to go and ended with ${how}: ${this.replicas[index]!.lines.slice(-3).join('\n')}`,
          ],
    );
  }

  async end(): Promise<void> {
    this.over = true;
    for (const replica of this.replicas) this.signal(replica, 'SIGKILL');
    await Promise.all(this.replicas.map(({ ended }) => ended));
  }

  private tell({ child }: Replica, order: Order): void {
    if (child.connected) child.send(order, () => undefined);
  }

  private startIn(place: Place): void {
    const { version } = place;
    const preload = place.skewed ? ['--import', join(version.folder, 'chaos/skew.js')] : [];
    const child = spawn(process.execPath, [...preload, join(version.folder, 'chaos/replica.js')], {
      env: {
        PATH: process.env.PATH,
        ...this.options.settings,
        DATABASE_URL: place.databaseUrl,
        PORT: new URL(place.url).port,
        CHAOS_WITHOUT: this.options.without.join(','),
        ...(place.skewed ? SKEW : {}),
        ...(version.previous ? { CHAOS_PREVIOUS: 'yes' } : {}),
      },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string);
    const lines: string[] = [];
    const keep = (line: string) => {
      lines.push(line);
      if (lines.length > LINES_KEPT) lines.shift();
    };
    const note = (logged: Logged | undefined) => {
      if (logged && !version.previous) this.logged.push(logged);
    };
    const ready = new Promise<void>((resolve, reject) => {
      createInterface({ input: child.stdout! }).on('line', (line) => {
        if (line.includes('Sluice is serving')) resolve();
        else keep(line);
        note(loggedIn(line, place.index, Date.now()));
      });
      void ended.then((how) => reject(new Error(`it ended (${how}) before it served:\n${lines.join('\n')}`)));
    });
    ready.catch(() => undefined);
    createInterface({ input: child.stderr! }).on('line', (line) => {
      keep(line);
      note(loggedOnStderr(line, place.index, Date.now()));
    });
    const replica: Replica = { child, version, lines, ready, ended, state: 'starting' };
    this.replicas[place.index] = replica;
    child.on('message', (news: News) => {
      for (const look of this.waiting) look(replica, news);
    });
    ready.then(
      () => {
        if (replica.state === 'starting') replica.state = 'working';
      },
      () => undefined,
    );
    void ended.then((how) => this.ended(place, replica, how));
  }

  private ended(place: Place, replica: Replica, how: number | string): void {
    const starting = replica.state === 'starting';
    const asked = replica.state === 'leaving' && (how === 0 || how === 'SIGTERM');
    replica.state = 'dead';
    if (asked) this.ends.asked += 1;
    else if (how === 'SIGKILL') this.ends.killed += 1;
    // Its own limit, and the database was away: that is what DRAIN_TIMEOUT is for.
    else if (replica.lines.some((line) => line.includes('service.drain-timeout')))
      this.ends.drainedTooLong += 1;
    // A start that finds no database says so and ends; an orchestrator starts it again, and so do we.
    else if (!starting)
      this.faults.push(`replica ${place.index} ended with ${how}: ${replica.lines.slice(-3).join('\n')}`);
    if (!this.over) setTimeout(() => this.over || this.startIn(place), starting ? 500 : 0);
  }
}
