import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Errors of deliveries say `responded 503` where they said `answered 503`. The status stays in the fingerprint, whatever
 * number it is, also for rows that the previous version writes. Fingerprints that are stored do not change.
 */
export class FingerprintsOfResponses1763251200191 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(fingerprintAfter('answered |responded '));
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(fingerprintAfter('answered '));
  }
}

/** As in migration 22, except for the words after which a number is kept. */
function fingerprintAfter(words: string): string {
  return `
    CREATE OR REPLACE FUNCTION fingerprint_of(error text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
      SELECT left(btrim(
        regexp_replace(
        regexp_replace(
        regexp_replace(
        regexp_replace(
        regexp_replace(COALESCE(error, ''),
          '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}', '<id>', 'g'),
          '"[^"]*"|\`[^\`]*\`', '<text>', 'g'),
          '(^|[^[:alnum:]_])''[^'']*''', '\\1<text>', 'g'),
          '(?<![[:alnum:]_])(?<!${words})[[:alnum:]_-]*[0-9][[:alnum:]_-]*([.:][[:alnum:]_-]*[0-9][[:alnum:]_-]*)*', '<n>', 'g'),
          '\\s+', ' ', 'g')), 200)
    $$`;
}
