import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { Problem, retryAfter } from '../http/problems.ts';

interface Bucket {
  tokens: number;
  filledAtMs: number;
}

/** API_KEY_RATE_LIMIT: a token bucket per api key, on this replica. */
@Injectable()
export class RateLimit {
  private readonly buckets = new Map<string, Bucket>();
  private readonly perSecond: number;

  constructor(@Inject(SETTINGS_TOKEN) settings: Settings) {
    this.perSecond = settings.apiKeyRateLimit;
  }

  /** A batch larger than a full bucket is accepted when the bucket is full, and leaves it negative. */
  take(caller: string, messages: number): void {
    if (this.perSecond === 0) return;
    const bucket = this.filled(caller);
    const needed = Math.min(messages, this.perSecond);
    if (bucket.tokens < needed) {
      const seconds = (needed - bucket.tokens) / this.perSecond;
      throw new Problem(
        'too-many-requests',
        `This key may post ${this.perSecond} messages per second.`,
        retryAfter(seconds),
      );
    }
    bucket.tokens -= messages;
  }

  private filled(caller: string): Bucket {
    const now = performance.now();
    const bucket = this.buckets.get(caller) ?? { tokens: this.perSecond, filledAtMs: now };
    const gained = ((now - bucket.filledAtMs) / 1000) * this.perSecond;
    bucket.tokens = Math.min(this.perSecond, bucket.tokens + gained);
    bucket.filledAtMs = now;
    this.buckets.set(caller, bucket);
    return bucket;
  }
}
