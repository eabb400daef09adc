/** Milliseconds with fractions: what happens within the same millisecond still has an order. */
export function preciseNow(): number {
  return performance.timeOrigin + performance.now();
}
