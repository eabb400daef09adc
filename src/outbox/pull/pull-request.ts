import { ApiPropertyOptional } from '@nestjs/swagger';
import { parseDuration } from '../../config/duration.ts';
import { durationFrom, Must, wholeFrom } from '../../http/definition-rules.ts';
import { Optional } from '../../http/optional.ts';
import type { HandedOutDelivery } from './hand-out-store.ts';
import type { Empty } from './why-empty.ts';

const MAX_MESSAGES = 500;
const DEFAULT_MESSAGES = 50;
const MIB = 1024 * 1024;
const MAX_BYTES = 16 * MIB;
/** Proxies cut a request after 60 s. */
const MAX_WAIT_MS = 50_000;

/** The body of a pull. */
export class PullBody {
  @ApiPropertyOptional({
    type: 'integer',
    minimum: 1,
    maximum: MAX_MESSAGES,
    default: DEFAULT_MESSAGES,
    description: 'Max messages.',
  })
  @Optional()
  @Must(wholeFrom(1, MAX_MESSAGES))
  max?: number;

  @ApiPropertyOptional({
    type: 'integer',
    minimum: 1,
    maximum: MAX_BYTES,
    default: MIB,
    description: 'Of the payloads together; a single message may be larger.',
  })
  @Optional()
  @Must(wholeFrom(1, MAX_BYTES))
  maxBytes?: number;

  @ApiPropertyOptional({
    default: '0s',
    example: '20s',
    description: 'How long to wait for a message; 0s to 50s.',
  })
  @Optional()
  @Must(durationFrom(0, MAX_WAIT_MS))
  wait?: string;
}

export interface PullLimits {
  readonly max: number;
  readonly maxBytes: number;
  readonly waitMs: number;
}

export interface PullResult {
  /** Of the hand-out. */
  readonly token: string;
  readonly rows: readonly HandedOutDelivery[];
  /** Why there are none, if that is known. */
  readonly empty?: Empty;
}

export function limitsOf({ max = DEFAULT_MESSAGES, maxBytes = MIB, wait = '0s' }: PullBody): PullLimits {
  return { max, maxBytes, waitMs: parseDuration(wait)! };
}

/** Pure: which rows each request gets, in order; `left` fits into none. */
export function share(
  rows: readonly HandedOutDelivery[],
  limits: readonly Pick<PullLimits, 'max' | 'maxBytes'>[],
): { shares: HandedOutDelivery[][]; left: HandedOutDelivery[] } {
  const shares: HandedOutDelivery[][] = limits.map(() => []);
  const used = limits.map(() => 0);
  const left: HandedOutDelivery[] = [];
  let first = 0;
  for (const row of rows) {
    while (first < limits.length && shares[first]!.length >= limits[first]!.max) first += 1;
    const fits = limits.findIndex(
      ({ max, maxBytes }, index) =>
        index >= first &&
        shares[index]!.length < max &&
        (shares[index]!.length === 0 || used[index]! + row.bytes <= maxBytes),
    );
    if (fits < 0) left.push(row);
    else {
      shares[fits]!.push(row);
      used[fits]! += row.bytes;
    }
  }
  return { shares, left };
}
