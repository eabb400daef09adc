export function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Lowest and highest; of five values or more, without one extreme on each side. */
export function range(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const inner = sorted.length >= 5 ? sorted.slice(1, -1) : sorted;
  return [inner[0], inner.at(-1)];
}

/** Half the width of the range, as a share of the median. */
export function spread(values) {
  const [low, high] = range(values);
  return (high - low) / 2 / median(values);
}

export function percentile(values, share) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}
