import { QUIET } from './bed-settings.ts';
import type { Behaviour } from './chain.ts';
import type { Random } from './random.ts';

export interface MessagesOptions {
  readonly keys: readonly string[];
  /** Keys that a message may send another message to. */
  readonly otherKeys: readonly string[];
  readonly poison: boolean;
  /** How many times a message may kill its process or cut its connection; 0: never. */
  readonly kills: number;
  /** Of its ids; different for each producer. */
  readonly prefix: string;
}

/** A message as it is posted; the text of its payload is kept byte for byte. */
export interface Draft {
  readonly id: string;
  readonly type: string;
  readonly key: string;
  readonly payload: string;
  readonly dueInMs?: number | undefined;
  readonly expiresInMs?: number | undefined;
}

/** As many failures as a message has attempts: it becomes a dead letter, and succeeds when it is revived. */
const HEALS_AFTER = 6;

/** Keys without dead letters, which an operator may release from any hold. */
export function isCalm(key: string): boolean {
  return key === 'hot' || /^k\d*0$/.test(key);
}

/** JSON texts that parsing and serializing again would change. */
const ODDITIES = ['1.0', '"\\u00e9\\/"', '1e2', '"naïve 𝄞"', '{"b":1,"a":[ ]}'];

/** Random messages, many of which fail; the same for the same seed. */
export class Messages {
  private count = 0;

  constructor(
    private readonly random: Random,
    private readonly options: MessagesOptions,
  ) {}

  next(key = this.random.one(this.options.keys)): Draft {
    const { random } = this;
    this.count += 1;
    const type = this.type();
    const behaviour = JSON.stringify(this.behaviour(type, key));
    const due = random.chance(0.02);
    return {
      id: `${this.options.prefix}-${this.count}`,
      type,
      key,
      payload: `${behaviour.slice(0, -1)}${behaviour === '{}' ? '' : ','}"n": ${this.count}, "odd":${random.one(ODDITIES)}}`,
      dueInMs: due ? Math.round(random.between(100, 1_500)) : undefined,
      expiresInMs: !due && random.chance(0.01) ? Math.round(random.between(1, 300)) : undefined,
    };
  }

  private type(): string {
    const { random } = this;
    if (random.chance(0.06)) return 'slow';
    if (random.chance(0.1)) return 'edit';
    return random.chance(0.3) ? QUIET : 'plain';
  }

  private behaviour(type: string, key: string): Behaviour {
    const { random } = this;
    const { kills, poison, otherKeys } = this.options;
    const behaviour: { -readonly [K in keyof Behaviour]: Behaviour[K] } = {};
    if (type === 'slow') behaviour.preparesMs = Math.round(random.between(1, 400));
    if (random.chance(0.03)) behaviour.takesMs = Math.round(random.between(5, 120));
    if (random.chance(0.03)) behaviour.sendsTo = random.one(otherKeys);
    const draw = random.next();
    const mayDie = poison && !isCalm(key);
    if (draw < 0.03) behaviour.fails = 1 + random.below(3);
    else if (draw < 0.0305 && mayDie) behaviour.fails = 99;
    else if (draw < 0.032 && mayDie) behaviour.refuses = true;
    else if (draw < 0.038 && mayDie) behaviour.heals = HEALS_AFTER;
    else if (draw < 0.05) behaviour.defersMs = Math.round(random.between(50, 600));
    else if (draw < 0.0504 && kills > 0) behaviour.kills = 1 + random.below(kills);
    else if (draw < 0.0515 && kills > 0) behaviour.cuts = 1 + random.below(kills);
    return behaviour;
  }
}
