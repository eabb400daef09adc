import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { type FaultRunResult, faultRun } from './fault-run.ts';
import type { Version } from './fleet.ts';
import { PLANTED, runPlanted } from './planted-bugs.ts';
import { Postgres } from './postgres.ts';
import { buildPrevious } from './previous.ts';
import { checkTable, countTable, faultTable, table } from './report.ts';
import { FAULTS, type Fault } from './schedule.ts';
import type { Violation } from './violation.ts';

/** Passed by run.mjs. */
export interface Launch {
  readonly root: string;
  readonly folder: string;
  compile(dist: string): string;
}

const USAGE = `npm run chaos [-- options]
  --seed n        the same schedule for the same seed (default 1)
  --minutes m     how long messages are posted and faults injected (default 1); --seconds s for less
  --faults a,b    only these: ${Object.keys(FAULTS).join(', ')}
  --planted a,b   instead: removes these guards, one at a time, and expects the checker to notice; "all"
                  (${PLANTED.map(({ name }) => name).join(', ')})
  --rate n        messages per second (default 100)
  --replicas n    (default 3)
  --every s       seconds between two faults, on average (default 3)
  --json file     writes the result to this file`;

/** Returns the exit code. */
export async function main(args: readonly string[], launch: Launch): Promise<number> {
  const options = read(args);
  if (typeof options === 'string') {
    log(options);
    return options === USAGE ? 0 : 2;
  }
  const version: Version = { name: 'current', folder: launch.folder, previous: false };
  return options.planted
    ? plantedRuns(options.planted, version, options.json)
    : oneRun(options, version, launch);
}

type Options = Exclude<ReturnType<typeof read>, string>;

function read(args: readonly string[]) {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seed: { type: 'string', default: '1' },
      minutes: { type: 'string', default: '1' },
      seconds: { type: 'string' },
      faults: { type: 'string' },
      planted: { type: 'string' },
      rate: { type: 'string', default: '100' },
      replicas: { type: 'string', default: '3' },
      every: { type: 'string', default: '3' },
      json: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return USAGE;
  const faults = values.faults?.split(',') ?? Object.keys(FAULTS);
  const unknown = faults.find((name) => !(name in FAULTS));
  if (unknown !== undefined)
    return `chaos: there is no fault "${unknown}"; there are ${Object.keys(FAULTS).join(', ')}`;
  const names = PLANTED.map(({ name }) => name as string);
  const planted = values.planted === 'all' ? names : values.planted?.split(',');
  const unknownGuard = planted?.find((name) => !names.includes(name));
  if (unknownGuard !== undefined)
    return `chaos: there is no guard "${unknownGuard}"; there are ${names.join(', ')}`;
  return {
    seed: Number(values.seed),
    seconds: values.seconds === undefined ? Number(values.minutes) * 60 : Number(values.seconds),
    faults: faults as Fault[],
    planted,
    rate: Number(values.rate),
    replicas: Number(values.replicas),
    everyMs: Number(values.every) * 1_000,
    json: values.json,
  };
}

async function oneRun(options: Options, version: Version, launch: Launch): Promise<number> {
  const skipped: Record<string, string> = {};
  // Read before the run: the work tree may change until it is over.
  const about = { ...aboutOf(launch.root), seed: options.seed, seconds: options.seconds, skipped };
  const previous = options.faults.includes('rolling')
    ? buildPrevious(launch.root, launch.compile)
    : undefined;
  if (previous && 'skipped' in previous) skipped.rolling = previous.skipped;
  const postgres = await Postgres.start({
    smallDisk: options.faults.includes('disk-full'),
    standby: options.faults.includes('failover'),
  });
  if (options.faults.includes('disk-full') && postgres.noSmallDisk)
    skipped['disk-full'] = postgres.noSmallDisk;
  const faults = options.faults.filter((fault) => !(fault in skipped));
  for (const [fault, reason] of Object.entries(skipped)) log(`chaos: ${fault} is skipped: ${reason}`);
  log(`chaos: seed ${options.seed}, ${options.seconds} s, ${options.replicas} replicas, ${faults.join(' ')}`);
  try {
    const result = await faultRun({
      ...options,
      faults,
      keys: 150,
      without: [],
      postgres,
      version,
      previous: previous && 'version' in previous ? previous.version : undefined,
      idleTimeoutMs: 300_000,
      log,
    });
    report(result, { ...about, faults }, options.json);
    return result.violations.length === 0 ? 0 : 1;
  } finally {
    await postgres.stop();
    if (previous && 'remove' in previous) previous.remove();
  }
}

interface About {
  readonly seed: number;
  readonly commit: string;
  readonly skipped: Readonly<Record<string, string>>;
  readonly faults: readonly Fault[];
}

function report(result: FaultRunResult, about: About, json: string | undefined): void {
  const held = result.violations.length === 0;
  write(json, { ...about, held, ...result });
  const tables = [
    faultTable(about.faults, result.injections, about.skipped),
    countTable(result),
    checkTable(result.violations),
  ];
  process.stdout.write(`\n${tables.join('\n\n')}\n\n`);
  logViolations(result.violations);
  log(`chaos: seed ${about.seed}, commit ${about.commit}: ${held ? 'everything held' : 'VIOLATED'}`);
}

async function plantedRuns(
  names: readonly string[],
  version: Version,
  json: string | undefined,
): Promise<number> {
  const postgres = await Postgres.start({ smallDisk: false });
  const rows = [];
  try {
    for (const planted of PLANTED.filter(({ name }) => names.includes(name))) {
      log(`chaos: without ${planted.name}`);
      rows.push(await runPlanted(planted, { postgres, version, log }));
    }
  } finally {
    await postgres.stop();
  }
  write(json, { planted: rows });
  const cells = rows.map(({ name, noticed, caughtBy, control }) => [
    name,
    noticed ? 'noticed' : 'NOT NOTICED',
    caughtBy.join('; '),
    control.length === 0 ? 'everything held' : `VIOLATED: ${control.join('; ')}`,
  ]);
  process.stdout.write(
    `\n${table(['guard removed', 'checker', 'caught by', 'the same with the guard'], cells)}\n`,
  );
  return rows.every(({ noticed, control }) => noticed && control.length === 0) ? 0 : 1;
}

const MAX_LOGGED = 20;

function logViolations(violations: readonly Violation[]): void {
  for (const { check, detail } of violations.slice(0, MAX_LOGGED)) log(`  ${check}: ${detail}`);
  if (violations.length > MAX_LOGGED) log(`  … and ${violations.length - MAX_LOGGED} more`);
}

function aboutOf(root: string) {
  const git = (...args: string[]) => spawnSync('git', args, { cwd: root, encoding: 'utf8' }).stdout.trim();
  const changed = git('status', '--porcelain', '--', 'src', 'migrations', 'chaos') !== '';
  return {
    date: new Date().toISOString(),
    commit: `${git('rev-parse', '--short', 'HEAD')}${changed ? ' with changes' : ''}`,
  };
}

function write(file: string | undefined, result: object): void {
  if (file) writeFileSync(file, `${JSON.stringify(result, null, 2)}\n`);
}

function log(line: string): void {
  process.stderr.write(`${line}\n`);
}
