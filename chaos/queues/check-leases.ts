import type { DeliveryRow, History } from '../history.ts';
import { type Check, type Violation, violation } from '../violation.ts';
import { endOf, type LeaseEnd } from './lease-ledger.ts';
import { type LeaseChange, leaseName } from './queue-history.ts';
import type { QueueTerms } from './queue-terms.ts';
import type { WorkerEvidence } from './worker-evidence.ts';

/** The times of the database are in microseconds. */
const CLOCK_MS = 0.1;

/** A delivery of a queue, and where its key and its queue are in the log so far. */
interface Subject {
  readonly row: DeliveryRow;
  readonly queue: QueueTerms;
  /** The delivery ahead of it, if its queue keeps the order of a key. */
  readonly ahead: DeliveryRow | undefined;
}

/** Walks through the log of the leases: each change must be one that the workers' calls, or the time, explain. */
export class LeaseCheck {
  private readonly violations: Violation[] = [];
  private readonly subjects: ReadonlyMap<number, Subject>;
  private readonly live = new Map<number, LeaseChange>();
  private readonly ends = new Map<number, LeaseEnd>();
  private readonly settled = new Set<number>();
  /** Made pending again, and not handed out since. */
  private readonly reopened = new Set<number>();
  private readonly reopenedKeys = new Set<string>();

  constructor(
    deliveries: History['deliveries'],
    queues: readonly QueueTerms[],
    private readonly evidence: WorkerEvidence,
    private readonly released: ReadonlySet<string>,
  ) {
    this.subjects = subjectsOf(deliveries, queues);
  }

  run(changes: readonly LeaseChange[]): Violation[] {
    for (const change of changes) {
      const subject = this.subjects.get(change.position);
      if (subject) this.step(change, subject);
    }
    return this.violations;
  }

  private step(change: LeaseChange, subject: Subject): void {
    const { op, position } = change;
    if (op === 'SETTLE') this.settled.add(position);
    else if (op === 'REOPEN') {
      this.reopened.add(position);
      this.reopenedKeys.add(keyOf(subject));
    } else if (op === 'INSERT') this.handOut(change, subject);
    else if (op === 'UPDATE') this.extend(change, subject);
    else {
      const end = endOf(change);
      this.end(end, subject);
      this.live.delete(position);
      this.ends.set(position, end);
    }
  }

  private handOut(change: LeaseChange, subject: Subject): void {
    const { position } = change;
    const others = [...this.live.values()].filter(
      (one) => this.subjects.get(one.position)!.queue === subject.queue,
    );
    if (this.live.has(position))
      this.report('one lease per message at a time', change, subject, 'is handed out while a worker has it');
    if (others.length >= subject.queue.maxInFlight)
      this.report(
        'no more in flight than a work queue allows',
        change,
        subject,
        `is one of ${others.length + 1}`,
      );
    if (subject.queue.ordered) this.inOrder(change, subject, others);
    this.repeat(change, subject);
    this.live.set(position, change);
    this.reopened.delete(position);
  }

  /** The one ahead is settled; a replay or a revive may make it pending again. */
  private inOrder(change: LeaseChange, subject: Subject, others: readonly LeaseChange[]): void {
    const check = 'a work queue hands out a key one message at a time, in order';
    const { key } = subject.row;
    const other = others.find(({ position }) => this.subjects.get(position)!.row.key === key);
    if (other && other.position !== change.position)
      this.report(check, change, subject, `is handed out while a worker has ${other.position} of its key`);
    if (subject.ahead && !this.settled.has(subject.ahead.position))
      this.report(
        check,
        change,
        subject,
        `is handed out before ${subject.ahead.position} of its key is settled`,
      );
  }

  /** It was made pending again; or the last hand-out ended without an outcome, and only that one counts, or does not. */
  private repeat(change: LeaseChange, subject: Subject): void {
    const end = this.ends.get(change.position);
    if (this.reopened.has(change.position)) return;
    const check = 'every repeat from a work queue has a reason';
    const expected = end ? (end.kind === 'return' ? end.attempt : end.attempt + 1) : 1;
    if (end && ['finish', 'dead'].includes(end.kind))
      this.report(check, change, subject, `is handed out again after its lease ended with ${end.kind}`);
    else if (change.attempt !== expected)
      this.report(
        check,
        change,
        subject,
        `is handed out as attempt ${change.attempt} in place of ${expected}`,
      );
    if (end?.kind === 'retry') this.early(change, end, subject);
  }

  private early(change: LeaseChange, end: LeaseEnd, subject: Subject): void {
    if (this.reopenedKeys.has(keyOf(subject)) || this.released.has(subject.row.key)) return;
    const asked = this.evidence.verdictsOn(leaseName(end)).map(({ afterMs = 0 }) => afterMs);
    const waitedMs = change.handedMs - end.beganMs + CLOCK_MS;
    if (waitedMs >= Math.min(...asked)) return;
    this.report(
      'no retry before its time',
      change,
      subject,
      `is handed out ${Math.round(waitedMs)} ms after`,
    );
  }

  private extend(change: LeaseChange, subject: Subject): void {
    const asked = this.evidence.verdictsOn(leaseName(change)).filter(({ kind }) => kind === 'extend');
    if (asked.length === 0)
      this.report(
        'a valid lease settles a message, no other does',
        change,
        subject,
        'was extended by nobody',
      );
    else if (asked.every(({ outcome }) => outcome === 'fenced'))
      this.report('a fenced lease changes nothing', change, subject, 'was extended');
  }

  private end(end: LeaseEnd, subject: Subject): void {
    const { kind, settledBy, token, beganMs, expiresMs } = end;
    const isOver = expiresMs <= beganMs + CLOCK_MS;
    const reason = 'every repeat from a work queue has a reason';
    if (kind === 'return') {
      if (this.evidence.wasReceived(leaseName(end)))
        this.report(reason, end, subject, 'was taken back although a worker got it');
    } else if (kind === 'expire' || (kind === 'dead' && settledBy === null)) {
      if (!isOver) this.report(reason, end, subject, 'was taken from its worker before its lease ended');
      if (kind === 'dead' && end.attempt < subject.queue.attempts)
        this.report(EVERY, end, subject, `is a dead letter after ${end.attempt} attempts`);
    } else if (settledBy !== token)
      this.report(
        'a valid lease settles a message, no other does',
        end,
        subject,
        `was settled by ${settledBy}`,
      );
    else if (isOver && expiresMs <= beganMs - CLOCK_MS)
      this.report('a fenced lease changes nothing', end, subject, 'was settled after its lease had ended');
    else this.verdict(end, subject);
  }

  /** Its worker said so. */
  private verdict(end: LeaseEnd, subject: Subject): void {
    const isLast = end.attempt >= subject.queue.attempts;
    const wanted = {
      finish: ['acknowledge'],
      retry: ['retry'],
      dead: isLast ? ['reject', 'retry'] : ['reject'],
    };
    const kinds = wanted[end.kind as keyof typeof wanted];
    const said = this.evidence.verdictsOn(leaseName(end)).filter(({ kind }) => kinds.includes(kind));
    if (said.length === 0)
      this.report(
        'a valid lease settles a message, no other does',
        end,
        subject,
        `ended with ${end.kind}, unasked`,
      );
    else if (said.every(({ outcome }) => outcome === 'fenced'))
      this.report('a fenced lease changes nothing', end, subject, `ended with ${end.kind}`);
  }

  private report(check: Check, change: LeaseChange, { row, queue }: Subject, what: string): void {
    const detail = `${queue.name}: ${change.position} (${row.sequence} of ${row.key}), attempt ${change.attempt}, ${what}`;
    this.violations.push(violation(check, detail));
  }
}

const EVERY = 'every work queue hands out every message until it is settled';

function subjectsOf(deliveries: History['deliveries'], queues: readonly QueueTerms[]): Map<number, Subject> {
  const byName = new Map(queues.map((queue) => [queue.name, queue]));
  const last = new Map<string, DeliveryRow>();
  const subjects = new Map<number, Subject>();
  for (const row of deliveries) {
    const queue = byName.get(row.listener);
    if (!queue) continue;
    const name = `${row.listener} ${row.key}`;
    subjects.set(row.position, { row, queue, ahead: queue.ordered ? last.get(name) : undefined });
    last.set(name, row);
  }
  return subjects;
}

function keyOf({ row, queue }: Subject): string {
  return `${queue.name} ${row.key}`;
}
