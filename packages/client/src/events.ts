/** What happened in the background: nothing of it needs a reaction, all of it is worth a log line. */
export interface SluiceEvent {
  readonly event:
    | 'request.retried'
    | 'producer.renumbered'
    | 'consumer.joined'
    | 'consumer.member-lost'
    | 'consumer.partition-lost'
    | 'consumer.skipped'
    | 'consumer.handler-failed'
    | 'consumer.handler-overdue'
    | 'queue.handler-failed'
    | 'queue.handler-overdue'
    | 'queue.retry-invalid'
    | 'queue.lease-lost';
  readonly detail: string;
  readonly error?: unknown;
}

export type OnEvent = (event: SluiceEvent) => void;
