import { summary } from './rounds.mjs';
import { median, range } from './statistics.mjs';

/**
 * One line of the result: ours against a reference, round by round (neighbours in time), so that a slow minute of the
 * machine hits both. Where the ratios of the rounds lie on both sides of the target, the result is hidden by noise and
 * no ratio is given. `atMost`: lower is better.
 */
export function compare(given) {
  const { name, ours, reference, referenceName, unit, target, note, field = 'rate', atMost = false } = given;
  const ratios = ours.map((row, round) => row[field] / reference[round][field]);
  const [low, high] = range(ratios);
  const ratio = median(ratios);
  const hidden = target !== undefined && low < target && high >= target;
  return {
    name,
    ours: rounded(median(ours.map((row) => row[field]))),
    reference: rounded(median(reference.map((row) => row[field]))),
    referenceName,
    ratio: hidden ? null : rounded(ratio),
    unit,
    spread: [rounded(low), rounded(high)],
    ...(target === undefined
      ? {}
      : { target, verdict: hidden ? 'hidden by noise' : verdict(ratio, target, atMost) }),
    ...(atMost ? { atMost } : {}),
    ...(note ? { note } : {}),
    // On a shared machine the CPU per message is more reliable than the rate.
    cpu: { ours: cpuOf(ours), reference: cpuOf(reference) },
    cpuRatio: rounded(median(ours.map((row, round) => costOf(reference[round]) / costOf(row)))),
  };
}

/** A line of the result that is compared with a limit instead: each value of `values` is that of one round. */
export function within({ name, values, unit, limit, referenceName, note }) {
  const [low, high] = range(values);
  const hidden = low <= limit && high > limit;
  return {
    name,
    ours: rounded(median(values)),
    reference: limit,
    referenceName,
    ratio: hidden || limit === 0 ? null : rounded(median(values) / limit),
    unit,
    spread: [rounded(low), rounded(high)],
    target: limit,
    verdict: hidden ? 'hidden by noise' : verdict(median(values), limit, true),
    atMost: true,
    ...(note ? { note } : {}),
  };
}

function verdict(ratio, target, atMost) {
  const met = atMost ? ratio <= target : ratio >= target;
  return met ? 'met' : 'missed';
}

function cpuOf(rows) {
  const { nodeMicros, postgresMicros } = summary(rows);
  return { nodeMicros: Math.round(nodeMicros), postgresMicros: Math.round(postgresMicros) };
}

function costOf({ nodeMicros, postgresMicros = 0 }) {
  return nodeMicros + postgresMicros;
}

function rounded(value) {
  return value >= 100 ? Math.round(value) : Number(value.toPrecision(3));
}
