/** history.inInbox — finished messages of a key that may be moved to history later. $1 key */
export const IN_INBOX = `
  SELECT count(*)::int AS count FROM inbox
  WHERE (key, position) > ($1::text, 0) AND (key, position) < ($1::text, 9223372036854775807)`;
