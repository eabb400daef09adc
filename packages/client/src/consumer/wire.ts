/** A message of a topic. */
export interface Message<Payload = unknown> {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly id: string;
  /** Who posted it: `urn:sluice:api-keys/<name>`, or the source of a CloudEvent. (source, id) identifies a message. */
  readonly source: string;
  readonly type: string;
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timestamp: string;
  /** Counts from 1; higher when members that had the message before died. */
  readonly attempt: number;
  readonly payload: Payload;
}

export interface PartitionName {
  readonly topic: string;
  readonly partition: number;
}

/** A partition as its owner has it. */
export interface Owned extends PartitionName {
  /** Grows with every hand-over of the partition. */
  readonly fence: number;
  /** The last offset processed. */
  readonly committed: number;
}

export interface Rejection {
  readonly offset: number;
  readonly reason: string;
}

export interface CommitItem extends PartitionName {
  readonly fence: number;
  /** The last offset processed, not the next one. */
  readonly offset: number;
  readonly rejected?: readonly Rejection[];
}

/** In the order of the items. */
export interface CommitOutcome extends PartitionName {
  readonly outcome: 'committed' | 'behind' | 'ahead' | 'fenced';
}

export interface WireBatch extends PartitionName {
  readonly fence: number;
  readonly from: number;
  readonly to: number;
  /** Offsets that were removed by retention before they were handed out. */
  readonly skipped?: { readonly from: number; readonly to: number };
  readonly messages: readonly Omit<Message, 'topic' | 'partition'>[];
}

export interface PollReply extends Assignment {
  readonly committed: readonly CommitOutcome[];
  readonly batches: readonly WireBatch[];
}

export interface Assignment {
  readonly assigned: readonly Owned[];
  readonly draining: readonly Owned[];
}

export interface JoinReply extends Assignment {
  readonly member: string;
  readonly session: string;
  readonly heartbeat: string;
}

export interface PollRequest {
  readonly member: string;
  readonly max: number;
  readonly maxBytes?: number;
  readonly next: readonly (PartitionName & { readonly fence: number; readonly next: number })[];
  readonly commit: readonly CommitItem[];
}
