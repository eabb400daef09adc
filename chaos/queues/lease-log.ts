/**
 * Triggers of a fault run write down every change of a lease, and every time a delivery of a work queue is settled or made
 * pending again, whatever code of the service does it. How a lease ended is read from its delivery, which the same statement
 * has changed. A number is taken while the row is locked, and a pull sees only what was committed before: the changes of a
 * delivery, and those of a key, are numbered in the order in which they took effect.
 */
export const INSTALL_LEASE_LOG = `
  CREATE SEQUENCE chaos.lease_number;
  CREATE TABLE chaos.lease_log (
    n bigint PRIMARY KEY DEFAULT nextval('chaos.lease_number'), at timestamptz DEFAULT clock_timestamp(), began timestamptz DEFAULT now(),
    op text, position bigint, attempt integer, token uuid, handed_at timestamptz, expires_at timestamptz,
    status text, charged integer, settled_by uuid);
  CREATE FUNCTION chaos.log_lease() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE changed public.pull_lease := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
    BEGIN
      INSERT INTO chaos.lease_log (op, position, attempt, token, handed_at, expires_at, status, charged, settled_by)
      SELECT TG_OP, changed.position, changed.attempt, changed.token, changed.handed_at, changed.expires_at,
             outbox.status, outbox.attempt, outbox.lease
      FROM public.outbox WHERE outbox.position = changed.position;
      RETURN NULL;
    END $$;
  CREATE FUNCTION chaos.log_settled() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF EXISTS (SELECT FROM public.listener WHERE number = NEW.listener AND definition ->> 'mode' = 'pull') THEN
        INSERT INTO chaos.lease_log (op, position, status)
        VALUES (CASE WHEN NEW.settled_at IS NULL THEN 'REOPEN' ELSE 'SETTLE' END, NEW.position, NEW.status);
      END IF;
      RETURN NULL;
    END $$;
  CREATE TRIGGER log_lease AFTER INSERT OR UPDATE OR DELETE ON pull_lease FOR EACH ROW EXECUTE FUNCTION chaos.log_lease();
  CREATE TRIGGER log_settled AFTER UPDATE ON outbox FOR EACH ROW
    WHEN ((OLD.settled_at IS NULL) <> (NEW.settled_at IS NULL)) EXECUTE FUNCTION chaos.log_settled();`;

const MS = (column: string) => `extract(epoch FROM ${column})::float8 * 1000`;

export const LEASE_CHANGES = `
  SELECT n::int, op, position::int, attempt, token, ${MS('at')} AS "atMs", ${MS('began')} AS "beganMs",
         ${MS('handed_at')} AS "handedMs", ${MS('expires_at')} AS "expiresMs", status, charged, settled_by AS "settledBy"
  FROM chaos.lease_log ORDER BY n`;
