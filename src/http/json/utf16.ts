export function isSurrogate(unit: number): boolean {
  return (unit & 0xf800) === 0xd800;
}

export function isSurrogatePair(high: number, low: number): boolean {
  return (high & 0xfc00) === 0xd800 && (low & 0xfc00) === 0xdc00;
}

/** The value of the four hexadecimal digits at a position; negative unless all four are digits. */
export function hexadecimal(units: Uint16Array, at: number): number {
  const high = (digit(units[at]!) << 12) | (digit(units[at + 1]!) << 8);
  return high | (digit(units[at + 2]!) << 4) | digit(units[at + 3]!);
}

function digit(unit: number): number {
  if (unit >= 0x30 && unit <= 0x39) return unit - 0x30;
  const letter = unit | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x61 + 10 : -1;
}
