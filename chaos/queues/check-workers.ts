import type { DeliveryRow, History } from '../history.ts';
import { type Violation, violation } from '../violation.ts';
import type { EndKind, Lease } from './lease-ledger.ts';
import { nameOfLease, type SentVerdict, type VerdictKind, type WorkerCall } from './queue-history.ts';
import type { QueueTerms } from './queue-terms.ts';
import type { Receipt, WorkerEvidence } from './worker-evidence.ts';

type Ledger = ReadonlyMap<string, Lease>;

const VALID = 'a valid lease settles a message, no other does';

/** Each outcome that a worker was told is what the database recorded. */
export function checkOutcomes(
  calls: readonly WorkerCall[],
  ledger: Ledger,
  evidence: WorkerEvidence,
): Violation[] {
  const pulled = new Map(evidence.receipts.map(({ lease, call }) => [lease, call]));
  return calls.flatMap(({ queue, doneMs, verdicts }) =>
    verdicts.flatMap((verdict) => {
      const lease = ledger.get(nameOfLease(verdict.lease));
      const call = pulled.get(verdict.lease);
      const isForgotten = !lease && call !== undefined && evidence.mayBeForgotten(call);
      const fault = isForgotten ? forgottenFault(verdict) : outcomeFault(verdict, lease, doneMs);
      return fault ? [violation(VALID, `${queue}: ${verdict.kind} of ${verdict.lease} ${fault}`)] : [];
    }),
  );
}

const ENDS: Readonly<Record<Exclude<VerdictKind, 'extend'>, readonly EndKind[]>> = {
  acknowledge: ['finish'],
  reject: ['dead'],
  retry: ['retry', 'dead'],
};

function forgottenFault({ outcome }: SentVerdict): string | undefined {
  return outcome === 'done' ? 'is done, but the server forgot the hand-out' : undefined;
}

function outcomeFault(
  { kind, outcome }: SentVerdict,
  lease: Lease | undefined,
  doneMs: number,
): string | undefined {
  if (outcome === undefined) return undefined;
  if (outcome === 'unknown' || !lease) return `is ${outcome}`;
  const { end } = lease;
  if (outcome === 'fenced') {
    const isOver = lease.expiresMs <= doneMs || (end !== undefined && end.atMs <= doneMs);
    return isOver ? undefined : 'is fenced although its lease was valid';
  }
  if (kind === 'extend') return lease.extensions > 0 ? undefined : 'is done and not recorded';
  const isRecorded = end !== undefined && ENDS[kind].includes(end.kind) && end.settledBy === lease.token;
  return isRecorded ? undefined : `is done and not recorded: it ended with ${end?.kind ?? 'nothing'}`;
}

/** A lease is given to one worker once, and comes with the message that it is for. */
export function checkReceipts(
  { deliveries, messages, posted }: Pick<History, 'deliveries' | 'messages' | 'posted'>,
  ledger: Ledger,
  evidence: WorkerEvidence,
): Violation[] {
  const rows = new Map(deliveries.map((row) => [row.position, row]));
  const byPosition = new Map(messages.map((row) => [row.position, row]));
  const texts = new Map(posted.map(({ id, payload }) => [id, payload]));
  const seen = new Set<string>();
  return evidence.receipts.flatMap((receipt) => {
    const { lease, id, type, sequence, payload, call } = receipt;
    const detail = `${call.queue}: ${lease} (${id})`;
    const isSecond = seen.has(lease);
    seen.add(lease);
    const known = ledger.get(nameOfLease(lease));
    if (!known) {
      if (evidence.mayBeForgotten(call)) return [];
      return [violation('every repeat from a work queue has a reason', `${detail} was not handed out`)];
    }
    const row = rows.get(known.position);
    const message = row && byPosition.get(row.message);
    const isAsPosted =
      message?.id === id &&
      message.type === type &&
      row?.sequence === sequence &&
      payload === (texts.get(id) ?? message.text);
    return [
      ...(isSecond ? [violation('one lease per message at a time', `${detail} came twice`)] : []),
      ...(isAsPosted ? [] : [violation('bytes as posted', `${detail} came with the payload ${payload}`)]),
    ];
  });
}

/** Every delivery was received and acknowledged, or is a dead letter that the log of the leases explains. */
export function checkSettled(
  deliveries: readonly DeliveryRow[],
  queues: readonly QueueTerms[],
  ledger: Ledger,
  evidence: WorkerEvidence,
): Violation[] {
  const attempts = new Map(queues.map((queue) => [queue.name, queue.attempts]));
  const ended = new Set([...ledger.values()].map(({ position, end }) => `${position} ${end?.kind}`));
  const received = new Set(
    evidence.receipts.map(({ lease }) => ledger.get(nameOfLease(lease))?.position ?? 0),
  );
  return deliveries.flatMap(({ position, listener, status, attempt, sequence, key }) => {
    const max = attempts.get(listener);
    if (max === undefined) return [];
    const detail = `${listener}: ${position} (${sequence} of ${key}) is ${status}`;
    const check = 'every work queue hands out every message until it is settled';
    if (attempt > max)
      return [violation('delivery attempts within the maximum', `${detail} with ${attempt} of ${max}`)];
    if (status === 'finished' && !ended.has(`${position} finish`))
      return [violation(check, `${detail} and was not acknowledged`)];
    if (status === 'finished' && !received.has(position))
      return [violation(check, `${detail} and no worker got it`)];
    if (status === 'dead' && !ended.has(`${position} dead`))
      return [violation(check, `${detail} and was not rejected`)];
    return [];
  });
}

/** As the workers saw it: a message comes for the first time after the one ahead of its key was acknowledged. */
export function checkOrder(
  deliveries: readonly DeliveryRow[],
  queues: readonly QueueTerms[],
  calls: readonly WorkerCall[],
  ledger: Ledger,
  { receipts }: WorkerEvidence,
): Violation[] {
  const ordered = new Set(queues.filter((queue) => queue.ordered).map(({ name }) => name));
  const firstMs = firstTimes(receipts, ledger);
  const saidMs = new Map<number, number>();
  for (const { sentMs, verdicts } of calls)
    for (const { kind, lease } of verdicts) {
      const position = ledger.get(nameOfLease(lease))?.position;
      if (position === undefined || kind !== 'acknowledge') continue;
      saidMs.set(position, Math.min(sentMs, saidMs.get(position) ?? sentMs));
    }
  const last = new Map<string, DeliveryRow>();
  return deliveries.flatMap((row) => {
    if (!ordered.has(row.listener)) return [];
    const name = `${row.listener} ${row.key}`;
    const ahead = last.get(name);
    last.set(name, row);
    const check = 'a work queue hands out a key one message at a time, in order';
    const number = (ahead?.sequence ?? 0) + 1;
    if (row.sequence !== number)
      return [violation(check, `${name}: ${row.position} is number ${row.sequence} in place of ${number}`)];
    const at = firstMs.get(row.position);
    if (!ahead || at === undefined || ahead.reopened || ahead.status !== 'finished') return [];
    if ((saidMs.get(ahead.position) ?? Number.POSITIVE_INFINITY) <= at) return [];
    return [violation(check, `${name}: ${row.sequence} came before ${ahead.sequence} was acknowledged`)];
  });
}

function firstTimes(receipts: readonly Receipt[], ledger: Ledger): Map<number, number> {
  const times = new Map<number, number>();
  for (const { lease, call } of receipts) {
    const position = ledger.get(nameOfLease(lease))?.position;
    if (position !== undefined)
      times.set(position, Math.min(call.doneMs, times.get(position) ?? call.doneMs));
  }
  return times;
}
