import { setTimeout as pause } from 'node:timers/promises';
import type { Api, Reply } from '../api.ts';
import { isCalm } from '../messages.ts';
import { Random } from '../random.ts';
import { type Operated, SCHEDULE } from './operator-history.ts';

export interface OperatorOptions {
  readonly api: Api;
  readonly seed: number;
  readonly listeners: readonly string[];
  /** Listeners that are pulled. */
  readonly queues: readonly string[];
  /** Consumer groups. */
  readonly groups: readonly string[];
  readonly keys: readonly string[];
  /** Without: it only holds keys. */
  readonly actions: boolean;
  /** A receiver has to know the new secret of its listener. */
  onRotated(listener: string, secret: string): void;
}

type Action = () => Promise<void>;

/** A slow action does not delay the others. */
const AT_ONCE = 3;
const SETTLE_ATTEMPTS = 400;
/** Replays of a few keys: one of everything would double the load of the run. */
const KEYS_PER_REPLAY = 3;
const FOUND = 30;
const STAGES = ['inbox', 'outbox', 'group'] as const;

/** An operator that acts over the API while faults are injected: at the end everything is resumed, released and deleted. */
export class Operator {
  readonly counts = {
    holds: 0,
    pauses: 0,
    rotations: 0,
    replays: 0,
    revives: 0,
    discards: 0,
    groupRulings: 0,
    schedulePauses: 0,
  };
  private readonly held = new Set<string>();
  private readonly schedulePauses: { fromMs: number; toMs: number }[] = [];
  private readonly startedAt = new Date().toISOString();
  private readonly random: Random;

  constructor(private readonly options: OperatorOptions) {
    this.random = new Random(options.seed + 2);
  }

  get operated(): Operated {
    return { keys: this.held, schedulePauses: this.schedulePauses };
  }

  async run(untilMs: number): Promise<void> {
    const holding = this.repeat(untilMs, () => this.holdKey());
    if (!this.options.actions) return holding;
    await this.putSchedule();
    const actions = this.weightedActions();
    const acting = Array.from({ length: AT_ONCE }, () =>
      this.repeat(untilMs, () => this.random.one(actions)()),
    );
    await Promise.all([holding, ...acting]);
    await this.settle('DELETE', `/v1/schedules/${SCHEDULE}`, [204, 404]);
  }

  private async repeat(untilMs: number, action: Action): Promise<void> {
    while (Date.now() < untilMs) {
      await action();
      await pause(this.random.between(0, 300));
    }
  }

  private weightedActions(): readonly Action[] {
    const weighted: readonly [number, Action][] = [
      [4, () => this.revive()],
      [2, () => this.reviveMany()],
      [1, () => this.discard()],
      [3, () => this.replay()],
      [2, () => this.pauseListener()],
      [1, () => this.rotateSecret()],
      [2, () => this.pauseSchedule()],
    ];
    return weighted.flatMap(([weight, action]) => Array<Action>(weight).fill(action));
  }

  /** Keys with dead letters only for a time: to end their hold would let later messages overtake. */
  private async holdKey(): Promise<void> {
    const { random } = this;
    const key = random.chance(0.2) ? 'hot' : random.one(this.options.keys);
    const isIndefinite = isCalm(key) && random.chance(0.5);
    const until = new Date(Date.now() + random.between(50, 800)).toISOString();
    this.held.add(key);
    const body = { reason: 'held by the operator of the run', ...(isIndefinite ? {} : { until }) };
    await this.settle('PUT', `/v1/keys/${key}/hold`, [200], body);
    await pause(random.between(20, 500));
    if (isCalm(key)) await this.settle('DELETE', `/v1/keys/${key}/hold`, [204, 404]);
    this.counts.holds += 1;
  }

  private get anyListener(): string {
    const { listeners, queues } = this.options;
    return this.random.one([...listeners, ...queues]);
  }

  private async pauseListener(): Promise<void> {
    const path = `/v1/listeners/${this.anyListener}`;
    await this.call('POST', `${path}/pause`, [200], { reason: 'paused by the operator of the run' });
    await pause(this.random.between(100, 2_000));
    await this.settle('POST', `${path}/resume`, [200]);
    this.counts.pauses += 1;
  }

  /** Refused when a listener has too many secrets. Without a response the old secret stays valid all the same. */
  private async rotateSecret(): Promise<void> {
    const listener = this.random.one(this.options.listeners);
    const reply = await this.call('POST', `/v1/listeners/${listener}/rotate-secret`, [200, 409]);
    if (reply?.status !== 200) return;
    this.options.onRotated(listener, (reply.body as { secret: string }).secret);
    this.counts.rotations += 1;
  }

  private async replay(): Promise<void> {
    const { random, startedAt: since } = this;
    const { keys } = this.options;
    const some = Array.from({ length: KEYS_PER_REPLAY }, () => random.one(keys));
    const body = random.chance(0.3) ? { since, onlyFailed: true } : { since, keys: some };
    const path = `/v1/listeners/${this.anyListener}/replay`;
    if (await this.call('POST', path, [202], body)) this.counts.replays += 1;
  }

  private async revive(): Promise<void> {
    const dead = await this.deadLetter();
    if (!dead) return;
    const path = `/v1/dead-letters/${encodeURIComponent(dead.id)}/revive?stage=${dead.stage}`;
    const reply = await this.call('POST', path, [200, 404, 409], {});
    if (reply?.status === 200) this.count('revives', dead.stage);
  }

  private async reviveMany(): Promise<void> {
    const { random } = this;
    const filter = random.one<object>([
      { stage: 'inbox' },
      { stage: 'outbox', listener: this.anyListener },
      { stage: 'group', group: random.one(this.options.groups) },
    ]);
    const reply = await this.call('POST', '/v1/dead-letters/revive', [202], { filter });
    if (reply) this.counts.revives += 1;
  }

  private async discard(): Promise<void> {
    const dead = await this.deadLetter();
    if (!dead) return;
    const path = `/v1/dead-letters/${encodeURIComponent(dead.id)}?stage=${dead.stage}&reason=discarded`;
    const reply = await this.call('DELETE', path, [204, 404, 409]);
    if (reply?.status === 204) this.count('discards', dead.stage);
  }

  private count(what: 'revives' | 'discards', stage: string): void {
    this.counts[what] += 1;
    if (stage === 'group') this.counts.groupRulings += 1;
  }

  private async deadLetter(): Promise<{ id: string; stage: string } | undefined> {
    const first = this.random.one(STAGES);
    for (const stage of [first, ...STAGES.filter((other) => other !== first)]) {
      const reply = await this.call('GET', `/v1/dead-letters?stage=${stage}&limit=${FOUND}`, [200]);
      const { items } = (reply?.body ?? { items: [] }) as { items: { id: string; stage: string }[] };
      if (items.length > 0) return this.random.one(items);
    }
    return undefined;
  }

  private async putSchedule(): Promise<void> {
    const body = { cron: '* * * * * *', type: 'plain', key: 'tick', payload: { n: 0 } };
    await this.settle('PUT', `/v1/schedules/${SCHEDULE}`, [200, 201], body);
  }

  private async pauseSchedule(): Promise<void> {
    const times = { fromMs: Date.now(), toMs: Number.POSITIVE_INFINITY };
    this.schedulePauses.push(times);
    await this.call('POST', `/v1/schedules/${SCHEDULE}/pause`, [200]);
    await pause(this.random.between(0, 1_500));
    await this.settle('POST', `/v1/schedules/${SCHEDULE}/resume`, [200]);
    times.toMs = Date.now();
    this.counts.schedulePauses += 1;
  }

  /** Retries until there is a response. */
  private async settle(
    method: string,
    path: string,
    expected: readonly number[],
    body?: object,
  ): Promise<void> {
    for (let attempt = 0; attempt < SETTLE_ATTEMPTS; attempt++) {
      if (await this.call(method, path, expected, body)) return;
      await pause(this.random.between(50, 200));
    }
    throw new Error(`${method} ${path} got no response`);
  }

  private call(
    method: string,
    path: string,
    expected: readonly number[],
    body?: object,
  ): Promise<Reply | undefined> {
    return this.options.api.call(method, path, this.random, { expected, ...(body ? { body } : {}) });
  }
}
