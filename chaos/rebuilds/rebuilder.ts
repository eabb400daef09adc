import { setTimeout as pause } from 'node:timers/promises';
import type { Api } from '../api.ts';
import { Random } from '../random.ts';
import type { TestBed } from '../test-bed.ts';
import { Interruption, type RebuildState } from './interruption.ts';

export interface RebuilderOptions {
  readonly api: Api;
  readonly seed: number;
  readonly bed: TestBed;
}

type Action = 'pause' | 'resume' | 'cancel' | 'switch' | 'rollback' | 'drop';

const MODEL = '/v1/read-models/chain';
const ACTIONS: readonly Action[] = ['pause', 'resume', 'cancel', 'switch', 'rollback', 'drop'];
const AT_WORK = ['building', 'replaying', 'comparing', 'switching'];

/**
 * An operator that rebuilds the read model over the API while faults are injected. At the end it has switched at least once,
 * a replica was killed in a rebuild that went on, and a rebuilt schema follows the living one.
 */
export class Rebuilder {
  readonly counts = {
    rebuilds: 0,
    switches: 0,
    rollbacks: 0,
    cancels: 0,
    pausedRebuilds: 0,
    msForLastRebuilds: 0,
  };
  readonly stopped: string[] = [];
  readonly interruption: Interruption;
  private readonly random: Random;
  private last: string | undefined;

  constructor(private readonly options: RebuilderOptions) {
    this.random = new Random(options.seed + 4);
    this.interruption = new Interruption(options.bed);
  }

  async run(untilMs: number): Promise<void> {
    while (Date.now() < untilMs) {
      const state = await this.state();
      if (state !== undefined) await this.act(this.choose(state));
      await pause(this.random.between(20, 200));
    }
  }

  /** Without faults: whatever is open is brought to its end; then a last rebuild is made and kept. */
  async finish(withinMs: number): Promise<void> {
    const startedMs = Date.now();
    while (!(await this.isFinished())) {
      if (Date.now() > startedMs + withinMs) {
        this.stopped.push(`the last rebuild is ${JSON.stringify(await this.state())}`);
        break;
      }
      await pause(50);
    }
    this.counts.msForLastRebuilds = Date.now() - startedMs;
  }

  private async isFinished(): Promise<boolean> {
    const state = await this.state();
    if (state === undefined) return false;
    const hasAll = this.counts.switches > 0 && this.interruption.wentOn > 0;
    if (hasAll && state?.status === 'ready' && !state.paused) return true;
    if (hasAll && isOver(state)) await this.start(true);
    else if (!hasAll || !isOver(state)) await this.act(forward(state));
    return false;
  }

  private choose(state: RebuildState | null): Action | 'start' | undefined {
    const { random } = this;
    if (random.chance(0.1)) return random.one(ACTIONS);
    if (isOver(state)) return 'start';
    if (state.paused || state.status === 'failed') return 'resume';
    if (state.status === 'switched') return random.chance(0.5) ? 'rollback' : 'drop';
    if (state.status === 'rolled-back') return random.chance(0.5) ? 'switch' : 'drop';
    if (state.status === 'ready') return random.chance(0.9) ? 'switch' : 'cancel';
    return random.chance(0.05) ? random.one(['pause', 'cancel'] as const) : undefined;
  }

  private async act(action: Action | 'start' | undefined): Promise<void> {
    if (action === 'start') await this.start(this.random.chance(0.3));
    else if (action !== undefined) await this.call(`/rebuild/${action}`, undefined, action);
  }

  /** The replica that starts a rebuild works on it first, so that is the one to kill. */
  private async start(dryRun: boolean): Promise<void> {
    const { api, bed } = this.options;
    const killed = this.interruption.wentOn === 0 ? this.interruption.arm() : undefined;
    const url = bed.urls[bed.fleet.replicas.indexOf(killed!)];
    await this.call('/rebuild', { dryRun }, 'start', url === undefined ? api : api.at(url));
  }

  private async call(
    path: string,
    body: object | undefined,
    what: Action | 'start',
    api = this.options.api,
  ): Promise<void> {
    const reply = await api.call('POST', `${MODEL}${path}`, this.random, {
      expected: [200, 202, 404, 409],
      ...(body ? { body } : {}),
    });
    if (!reply || reply.status >= 400) return;
    if (what === 'start') this.counts.rebuilds += 1;
    if (what === 'cancel') this.counts.cancels += 1;
    if (what === 'pause') this.counts.pausedRebuilds += 1;
  }

  /** Null: there was never one; undefined: no response. */
  private async state(): Promise<RebuildState | null | undefined> {
    const reply = await this.options.api.call('GET', MODEL, this.random, { expected: [200, 404] });
    // The previous version may have no rebuilds.
    if (reply?.status !== 200) return undefined;
    const { rebuild } = reply.body as { rebuild: RebuildState | null };
    if (rebuild) this.note(rebuild);
    return rebuild;
  }

  private note(state: RebuildState): void {
    const { id, status, failure } = state;
    this.interruption.note(state);
    const now = `${id} ${status}`;
    if (now === this.last) return;
    this.last = now;
    if (status === 'switched') this.counts.switches += 1;
    if (status === 'rolled-back') this.counts.rollbacks += 1;
    if (status === 'failed' && failure?.id)
      this.stopped.push(`rebuild ${id} stopped at ${failure.id}: ${failure.error}`);
  }
}

function isOver(state: RebuildState | null): state is null {
  return state === null || ['cancelled', 'dropped'].includes(state.status);
}

/** What brings a rebuild to its switch, and then to its end. */
function forward(state: RebuildState | null): Action | 'start' | undefined {
  if (isOver(state)) return 'start';
  if (state.paused || state.status === 'failed') return 'resume';
  if (AT_WORK.includes(state.status)) return undefined;
  return state.status === 'ready' ? 'switch' : 'drop';
}
