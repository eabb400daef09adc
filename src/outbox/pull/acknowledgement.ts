import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { parseDuration } from '../../config/duration.ts';
import { nearest } from '../../config/nearest.ts';
import { durationFrom, listOf, Must } from '../../http/definition-rules.ts';
import { Optional } from '../../http/optional.ts';
import { pointerTo } from '../../http/pointer.ts';
import { type FieldError, invalidFields } from '../../http/problems.ts';
import { MAX_LEASE_MS } from '../../listeners/listener-definition.ts';
import type { Verdict } from './settling.ts';

/** Over all lists together: one transaction settles them. */
export const MAX_LEASES = 1_000;
const MAX_REASON = 500;
const MAX_LEASE_TEXT = 200;
const MAX_AFTER_MS = 30 * 86_400_000;

class RetryLease {
  @ApiProperty({ minLength: 1, maxLength: MAX_LEASE_TEXT, description: 'As a pull returned it.' })
  lease: string;

  @ApiPropertyOptional({ example: '10s', description: '0s to 30d. Default: as `retrySchedule` says.' })
  after?: string;

  @ApiPropertyOptional({ minLength: 1, maxLength: MAX_REASON })
  reason?: string;
}

class RejectLease {
  @ApiProperty({ minLength: 1, maxLength: MAX_LEASE_TEXT, description: 'As a pull returned it.' })
  lease: string;

  @ApiProperty({ minLength: 1, maxLength: MAX_REASON, example: 'no such customer' })
  reason: string;
}

class ExtendLease {
  @ApiProperty({ minLength: 1, maxLength: MAX_LEASE_TEXT, description: 'As a pull returned it.' })
  lease: string;

  @ApiPropertyOptional({
    example: '30s',
    description: 'From now; 1s to 12h. Default: the lease of the listener.',
  })
  by?: string;
}

/** The body of an acknowledgement. Elements of the lists are checked by `verdictsOf`. */
export class AcknowledgeBody {
  @ApiPropertyOptional({ type: [String], maxItems: MAX_LEASES, description: 'Processed.' })
  @Optional()
  @Must(listOf(0, MAX_LEASES))
  acknowledge?: string[];

  @ApiPropertyOptional({
    type: [RetryLease],
    maxItems: MAX_LEASES,
    description:
      'To be handed out again later; a dead letter after the last attempt. Later messages of the key wait.',
  })
  @Optional()
  @Must(listOf(0, MAX_LEASES))
  retry?: RetryLease[];

  @ApiPropertyOptional({ type: [RejectLease], maxItems: MAX_LEASES, description: 'A dead letter at once.' })
  @Optional()
  @Must(listOf(0, MAX_LEASES))
  reject?: RejectLease[];

  @ApiPropertyOptional({
    type: [ExtendLease],
    maxItems: MAX_LEASES,
    description: 'The consumer needs more time.',
  })
  @Optional()
  @Must(listOf(0, MAX_LEASES))
  extend?: ExtendLease[];
}

/** What a consumer says about one lease. */
export interface LeaseVerdict {
  readonly lease: string;
  readonly verdict: Verdict;
}

interface Entry extends LeaseVerdict {
  readonly pointer: string;
}

type Fields = Readonly<Record<string, (value: unknown) => string | undefined>>;

const FIELDS = {
  retry: { lease: aLease, after: ifGiven(durationFrom(0, MAX_AFTER_MS)), reason: ifGiven(aReason) },
  reject: { lease: aLease, reason: aReason },
  extend: { lease: aLease, by: ifGiven(durationFrom(1_000, MAX_LEASE_MS)) },
} as const satisfies Record<string, Fields>;

const LISTS = ['acknowledge', 'retry', 'reject', 'extend'] as const;

/** Before `validated`, which reads no more than a thousand elements of a list. */
export function refuseTooMany(body: unknown): void {
  const lists = typeof body === 'object' && body !== null ? (body as AcknowledgeBody) : {};
  const count = LISTS.reduce((sum, list) => sum + (Array.isArray(lists[list]) ? lists[list].length : 0), 0);
  if (count > MAX_LEASES)
    throw invalidFields([
      { pointer: '', detail: `must not have more than ${MAX_LEASES} leases over all lists` },
    ]);
}

/** Checks the elements; a lease must not be there twice, in whatever list. Throws a 422 that lists every fault. */
export function verdictsOf(body: AcknowledgeBody): LeaseVerdict[] {
  const faults: FieldError[] = [];
  const entries = [
    ...acknowledged(body.acknowledge ?? [], faults),
    ...objects('retry', body.retry, faults, ({ after, reason }) => ({
      kind: 'retry',
      afterMs: after === undefined ? undefined : parseDuration(after as string),
      reason: reason as string | undefined,
    })),
    ...objects('reject', body.reject, faults, ({ reason }) => ({ kind: 'reject', reason: reason as string })),
    ...objects('extend', body.extend, faults, ({ by }) => ({
      kind: 'extend',
      byMs: by === undefined ? undefined : parseDuration(by as string),
    })),
  ];
  if (faults.length === 0 && entries.length === 0)
    faults.push({ pointer: '', detail: 'must have a lease to acknowledge, retry, reject or extend' });
  if (faults.length === 0) faults.push(...repeated(entries));
  if (faults.length > 0) throw invalidFields(faults);
  return entries;
}

function acknowledged(leases: readonly unknown[], faults: FieldError[]): Entry[] {
  return leases.flatMap((lease, index) => {
    const pointer = `/acknowledge/${index}`;
    const detail = aLease(lease);
    if (detail === undefined) return [{ pointer, lease: lease as string, verdict: { kind: 'acknowledge' } }];
    faults.push({ pointer, detail });
    return [];
  });
}

function objects(
  list: keyof typeof FIELDS,
  items: readonly unknown[] = [],
  faults: FieldError[],
  verdict: (item: Record<string, unknown>) => Verdict,
): Entry[] {
  return items.flatMap((item, index) => {
    const pointer = `/${list}/${index}`;
    const wrong = faultsOf(item, FIELDS[list], pointer);
    faults.push(...wrong);
    if (wrong.length > 0) return [];
    const fields = item as Record<string, unknown>;
    return [{ pointer: `${pointer}/lease`, lease: fields.lease as string, verdict: verdict(fields) }];
  });
}

function faultsOf(item: unknown, fields: Fields, pointer: string): FieldError[] {
  if (typeof item !== 'object' || item === null || Array.isArray(item))
    return [{ pointer, detail: 'must be an object with a lease' }];
  const given = item as Record<string, unknown>;
  const known = Object.entries(fields).flatMap(([name, rule]) => {
    const detail = rule(given[name]);
    return detail === undefined ? [] : [{ pointer: `${pointer}/${name}`, detail }];
  });
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(fields, name));
  return [...known, ...unknown.map((name) => unknownField(pointer, name, Object.keys(fields)))];
}

function unknownField(pointer: string, name: string, fields: readonly string[]): FieldError {
  const meant = nearest(name, fields, 2);
  return {
    pointer: pointerTo(pointer, name),
    detail: `is not a known field${meant ? `; did you mean "${meant}"?` : ''}`,
  };
}

function repeated(entries: readonly Entry[]): FieldError[] {
  const first = new Map<string, string>();
  return entries.flatMap(({ lease, pointer }) => {
    const before = first.get(lease);
    if (before === undefined) first.set(lease, pointer);
    return before === undefined ? [] : [{ pointer, detail: `is the same lease as ${before}` }];
  });
}

function aLease(value: unknown): string | undefined {
  const isText = typeof value === 'string' && value !== '' && value.length <= MAX_LEASE_TEXT;
  return isText ? undefined : 'must be a lease, as a pull returned it';
}

function aReason(value: unknown): string | undefined {
  const isText = typeof value === 'string' && value !== '' && value.length <= MAX_REASON;
  return isText ? undefined : `must be a text of 1 to ${MAX_REASON} characters`;
}

function ifGiven(rule: (value: unknown) => string | undefined): (value: unknown) => string | undefined {
  return (value) => (value === undefined ? undefined : rule(value));
}
