/** One hand-out of one message: what a consumer sends back to settle it. */
export interface LeaseRef {
  readonly lane: number;
  /** Of the delivery. */
  readonly position: number;
  readonly attempt: number;
  /** Of the transaction that handed it out. */
  readonly token: string;
}

const FORM = /^([0-9]{1,10})\.([0-9]{1,15})\.([0-9]{1,5})\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;
const MAX_LANE = 2_147_483_647;
const MAX_ATTEMPT = 32_767;

/** Opaque to consumers. It names its row, so that settling needs no index over tokens. */
export function leaseText({ lane, position, attempt, token }: LeaseRef): string {
  return `${lane}.${position}.${attempt}.${token}`;
}

/** Undefined: this service never returned such a lease. */
export function parseLease(text: string): LeaseRef | undefined {
  const [, lane, position, attempt, token] = FORM.exec(text) ?? [];
  const ref = { lane: Number(lane), position: Number(position), attempt: Number(attempt), token: token! };
  return token !== undefined && ref.lane <= MAX_LANE && ref.attempt <= MAX_ATTEMPT ? ref : undefined;
}
