import type { Trouble } from './chain.ts';
import type { Random } from './random.ts';

export interface MessagesOptions {
  readonly keys: readonly string[];
  /** Keys that a message may send another one to. */
  readonly otherKeys: readonly string[];
  readonly poison: boolean;
  /** How many times a message may end its process or its connection; 0: never. */
  readonly kills: number;
  /** Distinguishes its ids from those of other producers. */
  readonly prefix: string;
}

/** A message as it is posted; the text of its payload is remembered byte for byte. */
export interface Draft {
  readonly id: string;
  readonly type: string;
  readonly key: string;
  readonly payload: string;
  readonly dueInMs?: number | undefined;
  readonly expiresInMs?: number | undefined;
}

/** Texts that a service which parses and writes again would change. */
const ODDITIES = ['1.0', '"\\u00e9\\/"', '1e2', '"naïve 𝄞"', '{"b":1,"a":[ ]}'];

/** Messages full of trouble, the same for the same seed. */
export class Messages {
  private count = 0;

  constructor(
    private readonly random: Random,
    private readonly options: MessagesOptions,
  ) {}

  next(key = this.random.one(this.options.keys)): Draft {
    const { random } = this;
    this.count += 1;
    const type = random.chance(0.06) ? 'slow' : random.chance(0.1) ? 'edit' : 'plain';
    const trouble = JSON.stringify(this.trouble(type, key));
    const due = random.chance(0.02);
    return {
      id: `${this.options.prefix}-${this.count}`,
      type,
      key,
      payload: `${trouble.slice(0, -1)}${trouble === '{}' ? '' : ','}"n": ${this.count}, "odd":${random.one(ODDITIES)}}`,
      dueInMs: due ? Math.round(random.between(100, 1_500)) : undefined,
      expiresInMs: !due && random.chance(0.01) ? Math.round(random.between(1, 300)) : undefined,
    };
  }

  private trouble(type: string, key: string): Trouble {
    const { random } = this;
    const { kills, poison, otherKeys } = this.options;
    const trouble: { -readonly [K in keyof Trouble]: Trouble[K] } = {};
    if (type === 'slow') trouble.preparesMs = Math.round(random.between(1, 400));
    if (random.chance(0.03)) trouble.takesMs = Math.round(random.between(5, 120));
    if (random.chance(0.03)) trouble.sendsTo = random.one(otherKeys);
    const lot = random.next();
    const mayDie = poison && key !== 'hot';
    if (lot < 0.03) trouble.fails = 1 + random.below(3);
    else if (lot < 0.0305 && mayDie) trouble.fails = 99;
    else if (lot < 0.032 && mayDie) trouble.refuses = true;
    else if (lot < 0.05) trouble.defersMs = Math.round(random.between(50, 600));
    else if (lot < 0.0504 && kills > 0) trouble.kills = 1 + random.below(kills);
    else if (lot < 0.0515 && kills > 0) trouble.cuts = 1 + random.below(kills);
    return trouble;
  }
}
