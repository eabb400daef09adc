import { readdirSync, readFileSync } from 'node:fs';

/** Linux counts in hundredths of a second (USER_HZ, fixed in its interface). */
const TICKS_PER_SECOND = 100;

/**
 * Seconds of CPU that a PostgreSQL server has used: the postmaster, its running children, and (in the postmaster's own account) those
 * that exited. Undefined where there is no /proc.
 */
export function postgresCpuSeconds(postmaster) {
  let all;
  let ended;
  // A backend that exits during the read would be counted twice or not at all: read again.
  do {
    ended = statOf(postmaster)?.ended;
    all = processes();
  } while (ended !== statOf(postmaster)?.ended);
  if (!all) return undefined;
  let ticks = 0;
  for (const { pid, parent, own, ended } of all) {
    if (pid === postmaster) ticks += own + ended;
    else if (parent === postmaster) ticks += own;
  }
  return ticks / TICKS_PER_SECOND;
}

/** Seconds of CPU that one process has used; undefined where there is no /proc. */
export function cpuSecondsOf(pid) {
  const stat = statOf(pid);
  return stat && stat.own / TICKS_PER_SECOND;
}

function processes() {
  try {
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    return pids.flatMap((pid) => {
      const stat = statOf(pid);
      return stat ? [stat] : [];
    });
  } catch {
    return undefined;
  }
}

/** The process name is in parentheses and may contain anything, so fields are counted from the last parenthesis on. */
function statOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const [utime, stime, cutime, cstime] = fields.slice(11, 15).map(Number);
    return { pid: Number(pid), parent: Number(fields[1]), own: utime + stime, ended: cutime + cstime };
  } catch {
    return undefined; // it ended meanwhile
  }
}
