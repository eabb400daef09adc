import { type App, createApp } from '../../src/app.ts';
import { loadSettings, type Settings } from '../../src/config/settings.ts';
import type { ReadModel } from '../../src/contract/read-model.ts';
import { migrate } from '../../src/database/migrate.ts';
import { OpenApi } from '../../src/http/openapi.ts';
import { READ_MODELS } from '../../src/read-models/read-models.module.ts';
import { createLog } from '../../src/telemetry/logger.ts';
import type { TestDatabase } from './database.ts';
import { DescribedResponses, type Document } from './described-responses.ts';

export const ADMIN_KEY = 'sk_admin_0123456789abcdefghij';
export const PRODUCE_KEY = 'sk_produce_0123456789abcdefghij';
export const READ_KEY = 'sk_read_0123456789abcdefghij';
export const CONSUME_KEY = 'sk_consume_0123456789abcdefghij';

const KEYS = [
  `admin=admin:${ADMIN_KEY}`,
  `produce=produce:${PRODUCE_KEY}`,
  `read=read:${READ_KEY}`,
  `consume=consume:${CONSUME_KEY}`,
].join(',');

export interface TestApp {
  readonly app: App;
  readonly url: string;
  readonly settings: Settings;
  /** Every log line so far. */
  readonly lines: string[];
  call(method: string, path: string, options?: CallOptions): Promise<ApiResponse>;
  close(): Promise<void>;
}

export interface CallOptions {
  body?: unknown;
  headers?: Record<string, string>;
  key?: string | null;
}

export interface ApiResponse {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests read arbitrary bodies
  readonly body: any;
  readonly text: string;
}

/**
 * A replica on a free loopback port, started as in production, with an API key of every scope. `readModels` replace those
 * of the service; their tables are created first. `overrides`: settings that the environment does not allow, such as a lease
 * that a test can wait for.
 */
export async function startApp(
  database: TestDatabase,
  environment: Record<string, string> = {},
  readModels?: readonly ReadModel[],
  overrides: Partial<Settings> = {},
): Promise<TestApp> {
  const allowed = loadSettings({ API_KEYS: KEYS, HOST: '127.0.0.1', PORT: '0', ...environment });
  const settings = { ...allowed, ...overrides };
  const lines: string[] = [];
  const log = createLog(
    { ...settings, logLevel: environment.LOG_LEVEL ? settings.logLevel : 'warn' },
    {
      write: (line) => void lines.push(line),
    },
  );
  if (readModels) await migrate(database.url, settings, readModels);
  const app = await createApp(database.url, settings, log, readModels ?? READ_MODELS);
  const undescribed = watchResponses(app);
  const url = await app.listen();
  return {
    app,
    url,
    settings,
    lines,
    async call(method, path, options = {}) {
      const response = await call(url + path, method, options);
      failIf(undescribed);
      return response;
    },
    async close() {
      await app.close();
      failIf(undescribed);
    },
  };
}

/**
 * Compares every response of the replica, whoever requested it, with its OpenAPI document: a journey fails if the two differ.
 * Returns the differences, which grow.
 */
function watchResponses({ nest }: App): string[] {
  const described = new DescribedResponses(nest.get(OpenApi).document as unknown as Document);
  const undescribed: string[] = [];
  nest
    .getHttpAdapter()
    .getInstance()
    .addHook('onSend', async (request, reply, payload) => {
      undescribed.push(...described.faultsOf(request, reply, payload));
    });
  return undescribed;
}

function failIf(undescribed: string[]): void {
  const [...lines] = undescribed.splice(0);
  if (lines.length > 0) throw new Error(`Not as /openapi.json describes it:\n${lines.join('\n')}`);
}

async function call(
  url: string,
  method: string,
  { body, headers, key = ADMIN_KEY }: CallOptions,
): Promise<ApiResponse> {
  const raw = typeof body === 'string' || body instanceof Uint8Array;
  const response = await fetch(url, {
    method,
    headers: {
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(key ? { authorization: `Bearer ${key}` } : {}),
      ...headers,
    },
    ...(body === undefined ? {} : { body: raw ? (body as string) : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: parsed(text), text };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
