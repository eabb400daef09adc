const DAYS = 400;

/** Takes the place of PostgreSQL's functions for the time in statements that do not name a schema. */
export const SHIFTED_FUNCTIONS = [
  'CREATE SCHEMA IF NOT EXISTS sluice_shifted_clock',
  ...['now', 'transaction_timestamp', 'statement_timestamp', 'clock_timestamp'].map(
    (name) => `
      CREATE OR REPLACE FUNCTION sluice_shifted_clock.${name}() RETURNS timestamptz LANGUAGE sql VOLATILE
      AS $$ SELECT pg_catalog.${name}() + interval '${DAYS} days' $$`,
  ),
].join(';\n');

/**
 * The first statement of a transaction that is to see them. The keywords CURRENT_TIMESTAMP and CURRENT_DATE cannot be
 * replaced: CURRENT_DATE is noticed only when the day changes between the two runs.
 */
export const SHIFTED_CLOCK = (schema: string): string =>
  `SET LOCAL search_path = sluice_shifted_clock, pg_catalog, ${schema}, public`;

/** `Date` is later within `work`; dates that are made from given values, and instanceof, stay as they are. */
export async function withShiftedDate<T>(work: () => Promise<T>): Promise<T> {
  const RealDate = globalThis.Date;
  const shifted = () => RealDate.now() + DAYS * 86_400_000;
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args, newTarget) =>
      Reflect.construct(target, args.length ? args : [shifted()], newTarget),
    apply: () => new RealDate(shifted()).toString(),
    get: (target, property) => (property === 'now' ? shifted : Reflect.get(target, property)),
  });
  try {
    return await work();
  } finally {
    globalThis.Date = RealDate;
  }
}
