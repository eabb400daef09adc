import { commitsWait, type Replication, standbysNeeded } from '../../database/replication.ts';
import { type Finding, failed, ok, warning } from './finding.ts';

const CHECK = 'loss of the server';

/** Pure: whether what was confirmed with 202 survives the loss of the primary. */
export function replicationFinding(replication: Replication): Finding {
  const needed = standbysNeeded(replication);
  if (needed === 0) return notReplicated(replication);
  const { synchronous, potential, commits } = replication;
  const waiting = commitsWait(replication);
  if (waiting === undefined)
    return warning(
      CHECK,
      `commits wait for ${needed} standbys, which this role may not see`,
      'GRANT pg_read_all_stats TO the role of DATABASE_URL',
    );
  if (waiting)
    return failed(
      CHECK,
      `${synchronous} of the ${needed} standbys that commits wait for are connected: posts end as 503`,
      'start the standbys; names in synchronous_standby_names must be their application_name',
    );
  if (synchronous + potential === needed)
    return warning(
      CHECK,
      `a 202 survives it; without one of the ${needed} standbys all commits wait`,
      `add a standby: synchronous_standby_names = 'ANY ${needed} (…)' with more than ${needed}`,
    );
  const power = commits === 'remote_write' ? ', but not the power of both (remote_write)' : '';
  return ok(
    CHECK,
    `a 202 survives it${power}: commits wait for ${needed} of ${synchronous + potential} standbys`,
  );
}

function notReplicated({ names, commits, asynchronous }: Replication): Finding {
  if (names.trim() !== '')
    return warning(
      CHECK,
      `a 202 does not survive it: synchronous_commit is ${commits}`,
      'set synchronous_commit = on for the role and the database',
    );
  const standbys =
    asynchronous > 0 ? `; ${asynchronous} asynchronous standbys may lack the last commits` : '';
  return warning(
    CHECK,
    `a 202 does not survive it: commits wait for no standby${standbys}`,
    'set synchronous_standby_names (docs/high-availability.md), unless your provider replicates the storage',
  );
}
