/*
 * Preloaded into one replica: its clock is off by CHAOS_SKEW_MS and runs CHAOS_DRIFT times as fast. Only JavaScript sees
 * that; timers and the operating system are not affected.
 */
const { CHAOS_SKEW_MS = '0', CHAOS_DRIFT = '1' } = process.env;
const skewMs = Number(CHAOS_SKEW_MS);
const drift = Number(CHAOS_DRIFT);

const RealDate = Date;
const beganAt = RealDate.now();
const wrongNow = () => beganAt + skewMs + Math.round((RealDate.now() - beganAt) * drift);

globalThis.Date = new Proxy(RealDate, {
  construct: (target, values, self) =>
    Reflect.construct(target, values.length === 0 ? [wrongNow()] : values, self),
  apply: () => new RealDate(wrongNow()).toString(),
  get: (target, name, self) => (name === 'now' ? wrongNow : Reflect.get(target, name, self)),
});

const monotonic = performance.now.bind(performance);
const beganMs = monotonic();
performance.now = () => beganMs + (monotonic() - beganMs) * drift;
