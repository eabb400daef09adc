import { utc } from '../database/utc.ts';

/**
 * A message of a topic as JSON text, built by PostgreSQL: the text is passed on without parsing it, so the payload is
 * exactly what was posted. `entry` and `message` are the names of a topic_entry and its inbox row.
 */
export function entryJson(entry: string, message: string, more: string = `''`): string {
  return `
    '{"offset":' || ${entry}."offset" || ',"id":' || to_json(${message}.id)::text || ',"source":' || to_json(${message}.source)::text
    || ',"type":' || to_json(${message}.type)::text || ',"key":' || to_json(${message}.key)::text
    || ',"headers":' || COALESCE(${message}.headers::text, '{}')
    || ',"timestamp":"' || ${utc(`COALESCE(${message}.occurred_at, ${message}.received_at)`)} || '"' || ${more}
    || ',"payload":' || ${message}.payload::text || '}'`;
}
