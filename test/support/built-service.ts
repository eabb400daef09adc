import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';

export const ROOT = resolve(import.meta.dirname, '../..');

/** The built service in its own process. */
export interface BuiltService {
  readonly child: ChildProcess;
  /** Everything on stderr so far. */
  errors(): string;
  /** Everything on stdout so far. */
  output(): string;
  /** The first matching line of stdout, past or future; fails when the process ends without one. */
  line(pattern: RegExp): Promise<RegExpExecArray>;
  /** The URL it listens on. */
  url(): Promise<string>;
  /** Its exit code, or the signal that ended it. */
  exit(): Promise<number | string>;
  /** Kills it if it still runs; with `npm`, the whole process group. */
  kill(): void;
}

/** Builds the service if the sources have changed since the last build. */
export function build(): void {
  const built = spawnSync(
    process.execPath,
    ['-e', "import('./scripts/ready.mjs').then(({ build }) => build())"],
    {
      cwd: ROOT,
      encoding: 'utf8',
    },
  );
  if (built.status !== 0) throw new Error(`${built.stdout}${built.stderr}`);
}

export interface RunOptions {
  readonly uid?: number;
  readonly program?: string;
  /** Starts it by `npm start`, as the leader of a process group. */
  readonly npm?: boolean;
  /** Command line flags of Node. */
  readonly flags?: readonly string[];
}

/** Settings of a replica with the role api on a migrated database, on a free port unless one is given. */
export function apiSettings(databaseUrl: string, apiKeys: string, port = '0'): Record<string, string> {
  return {
    DATABASE_URL: databaseUrl,
    MIGRATIONS: 'off',
    ROLES: 'api',
    PORT: port,
    HOST: '127.0.0.1',
    API_KEYS: apiKeys,
  };
}

/** Starts it with these settings only, on a free port unless one is given. */
export function run(settings: Record<string, string>, options: RunOptions = {}): BuiltService {
  const { uid, program = 'dist/src/main.js', npm = false, flags = [] } = options;
  const [command, args] = npm ? ['npm', ['start']] : [process.execPath, [...flags, program]];
  const child = spawn(command, args, {
    cwd: ROOT,
    env: { PATH: process.env.PATH, PORT: '0', LOG_FORMAT: 'json', ...settings },
    detached: npm,
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(uid === undefined ? {} : { uid, gid: uid }),
  });
  const ended = once(child, 'close') as Promise<[number | null, string | null]>;
  const lines: string[] = [];
  const listeners = new Set<(line: string) => void>();
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line);
    for (const listener of listeners) listener(line);
  });

  const service: BuiltService = {
    child,
    errors: () => errors,
    output: () => lines.join('\n'),
    line: (pattern) =>
      new Promise((resolve, reject) => {
        const check = (line: string) => {
          const match = pattern.exec(line);
          if (!match) return;
          listeners.delete(check);
          resolve(match);
        };
        listeners.add(check);
        lines.forEach(check);
        void ended.then(() =>
          reject(new Error(`the service ended without ${pattern}:\n${errors}${lines.join('\n')}`)),
        );
      }),
    url: async () => (await service.line(/Sluice is serving\s+(http\S+)/))[1]!,
    exit: async () => {
      const [code, signal] = await ended;
      return code ?? signal!;
    },
    kill: () => {
      if (!npm) return void child.kill('SIGKILL');
      try {
        process.kill(-child.pid!, 'SIGKILL');
      } catch {
        // The process group has ended already.
      }
    },
  };
  return service;
}
