/**
 * Triggers of a fault run write down every change of a cursor and the end of every member, whatever code of the service made
 * it. A number is taken while the row is locked, so the changes of one cursor are numbered in the order of their commits.
 */
export const INSTALL_CURSOR_LOG = `
  CREATE SEQUENCE chaos.log_number;
  CREATE TABLE chaos.cursor_log (
    n bigint PRIMARY KEY DEFAULT nextval('chaos.log_number'), op text, group_number integer, topic integer, partition smallint,
    committed bigint, handed bigint, owner uuid, fence bigint);
  CREATE TABLE chaos.member_log (
    n bigint PRIMARY KEY DEFAULT nextval('chaos.log_number'), id uuid, silent_ms float8, session_ms integer);
  CREATE FUNCTION chaos.log_cursor() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE changed public.group_cursor := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
    BEGIN
      INSERT INTO chaos.cursor_log (op, group_number, topic, partition, committed, handed, owner, fence)
      VALUES (TG_OP, changed.group_number, changed.topic, changed.partition, changed.committed, changed.handed, changed.owner, changed.fence);
      RETURN NULL;
    END $$;
  CREATE FUNCTION chaos.log_member() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO chaos.member_log (id, silent_ms, session_ms)
      SELECT OLD.id, extract(epoch FROM clock_timestamp() - OLD.seen_at) * 1000, consumer_group.session_ms
      FROM public.consumer_group WHERE consumer_group.number = OLD.group_number;
      RETURN NULL;
    END $$;
  CREATE TRIGGER log_cursor AFTER INSERT OR UPDATE OR DELETE ON group_cursor FOR EACH ROW EXECUTE FUNCTION chaos.log_cursor();
  CREATE TRIGGER log_member AFTER DELETE ON group_member FOR EACH ROW EXECUTE FUNCTION chaos.log_member();`;

export const CURSOR_CHANGES = `
  SELECT log.n::int, log.op, consumer_group.name AS group, topic.name AS topic, log.partition, log.committed::int, log.handed::int,
         log.owner, log.fence::int
  FROM chaos.cursor_log AS log JOIN consumer_group ON consumer_group.number = log.group_number
  JOIN topic ON topic.number = log.topic ORDER BY log.n`;

export const MEMBER_ENDS = `
  SELECT n::int, id AS member, silent_ms AS "silentMs", session_ms AS "sessionMs" FROM chaos.member_log ORDER BY n`;
