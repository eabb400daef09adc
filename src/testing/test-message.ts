/** A message of a scenario. */
export interface TestMessage {
  readonly type: string;
  readonly payload: unknown;
  readonly key: string;
  readonly source?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly occurredAt?: Date;
}

/**
 * A builder of messages: what is irrelevant for a scenario has a default.
 *
 *     const candidateApplied = messageOf(CANDIDATE_APPLIED, { candidateId: 'c-1', name: 'Ada' }, 'candidateId');
 *     candidateApplied({ name: 'Grace' })
 */
export function messageOf<Payload extends object>(
  type: string,
  defaults: Payload,
  key: keyof Payload & string,
) {
  return (
    payload: Record<string, unknown> = {},
    more: Partial<Omit<TestMessage, 'type' | 'payload'>> = {},
  ): TestMessage => {
    const whole: Record<string, unknown> = { ...defaults, ...payload };
    return { type, payload: whole, key: String(whole[key]), ...more };
  };
}
