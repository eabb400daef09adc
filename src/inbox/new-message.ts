/** A message as accepted, not yet stored. JSON stays text: it is stored exactly as it was sent. */
export interface NewMessage {
  readonly id: string;
  /** Whose id it is: (source, id) names a message once and for all. */
  readonly source: string;
  readonly type: string;
  readonly key: string;
  /** It came without one, so its key is its id: it is not counted with others of that key, nor superseded, and holds none of them. */
  readonly keyless: boolean;
  readonly lane: number;
  /** JSON text. */
  readonly payload: string;
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly occurredAt: string | undefined;
  readonly dueAt: string | undefined;
  readonly expiresAt: string | undefined;
  readonly producer: ProducerSequence | undefined;
}

/** A producer is named by the api key it posts with and its own id, whatever the source of its messages. */
export interface ProducerSequence {
  readonly caller: string;
  readonly id: string;
  readonly sequence: number;
}

/** The inbox has a fixed number of lanes: rows carry theirs, so it can only be changed with all of them. */
export const INBOX_LANES = 256;

/** Messages posted with a key come from that key; CloudEvents bring a source of their own. */
export function sourceOfCaller(name: string): string {
  return `urn:sluice:api-keys/${name}`;
}
