import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { compile } from '../../chaos/compile.mjs';
import type { Settings } from '../../src/config/settings.ts';
import { build } from './built-service.ts';

let compiled: string | undefined;

/** Passed to `replica.ts`. */
export interface ReplicaOptions {
  readonly databaseUrl: string;
  readonly settings?: Record<string, string>;
  /** Settings that the environment does not allow. */
  readonly overrides?: Partial<Settings>;
  /** The name of a file in this folder that exports it. */
  readonly readModel?: string;
}

/** A replica in its own process. */
export interface Replica {
  readonly child: ChildProcess;
  /** Its log lines, warnings and worse. */
  readonly lines: string[];
  /** Resolves when it processes. */
  readonly ready: Promise<void>;
  /** Its exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>;
  signal(name: NodeJS.Signals): void;
}

export function startReplicaProcess(options: ReplicaOptions): Replica {
  const { databaseUrl, settings = {}, overrides = {}, readModel } = options;
  compiled ??= builtAndCompiled();
  const child = spawn(process.execPath, [join(compiled, 'test/support/replica.js')], {
    env: {
      PATH: process.env.PATH,
      REPLICA_DATABASE: databaseUrl,
      REPLICA_SETTINGS: JSON.stringify(settings),
      REPLICA_OVERRIDES: JSON.stringify(overrides),
      ...(readModel ? { REPLICA_READ_MODEL: `./${readModel}.js` } : {}),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string);
  const ready = new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (line === 'ready') resolve();
      else lines.push(line);
    });
    void ended.then((how) =>
      reject(new Error(`the replica ended (${how}) before it was ready:\n${lines.join('\n')}`)),
    );
  });
  ready.catch(() => undefined);
  createInterface({ input: child.stderr }).on('line', (line) => lines.push(line));
  return { child, lines, ready, ended, signal: (name) => void child.kill(name) };
}

function builtAndCompiled(): string {
  build();
  return compile();
}
