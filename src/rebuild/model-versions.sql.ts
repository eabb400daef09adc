/** What this replica runs; removes what nobody has run for an hour. $1 models, $2 versions, $3 migrations as JSON */
export const RUNS = `
  WITH gone AS (DELETE FROM read_model_version WHERE seen_at < clock_timestamp() - interval '1 hour')
  INSERT INTO read_model_version (model, version, migrations)
  SELECT model, version, ARRAY(SELECT jsonb_array_elements_text(migrations)) FROM unnest($1::text[], $2::text[], $3::jsonb[]) AS runs(model, version, migrations)
  ORDER BY model ON CONFLICT (model, version, migrations) DO UPDATE SET seen_at = clock_timestamp()`;
