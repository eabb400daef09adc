import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import type { Api } from '../api.ts';
import { EXIT, usageError } from '../cli-error.ts';
import type { Arguments, Command } from '../command.ts';
import { bodyWithPayload } from '../payload.ts';

const RETRIES = 5;
const POLL_MS = 100;
const ENDED: readonly string[] = ['finished', 'dead', 'expired', 'superseded', 'discarded'];

export function sendFrom(stdin: Readable): Command {
  return {
    name: 'send',
    summary: 'Post a message.',
    usages: [`<type> <payload as JSON>`, '<type> @<file>', '<type> -'],
    options: {
      key: {
        type: 'string',
        about: 'Messages with the same key are processed in order.',
      },
      id: { type: 'string', about: 'Id of the message, for deduplication (default: a random one).' },
      header: { type: 'string', value: 'name=value', multiple: true, about: 'A header of the message.' },
      due: { type: 'string', value: 'time', about: 'Do not process before this time; RFC 3339.' },
      expires: { type: 'string', value: 'time', about: 'Do not process after this time; RFC 3339.' },
      wait: {
        type: 'string',
        value: 'seconds',
        about: 'Wait until it is processed; exit code 1 unless it is finished.',
      },
    },
    async run(args, { api, output }) {
      const [type, given, ...more] = args.positionals;
      if (type === undefined || given === undefined || more.length > 0)
        throw usageError('give a type and a payload: sluice send <type> <payload as JSON>');
      const waitMs = waitOf(args);
      const body = bodyOf(args, type, await payloadOf(given, stdin));
      // The id is chosen here, so a retry is safe: the message is stored once.
      const sent = await api.call('POST', '/v1/messages', { body, retries: RETRIES });
      const result = waitMs === undefined ? sent.body : await waitForEnd(api, sent.body, waitMs);
      const duplicate = result.duplicate ? ' (duplicate)' : '';
      const why = result.explanation ? `  ${result.explanation}\n` : '';
      output.result(result, () => `${result.id} ${result.status}${duplicate}\n${why}`);
      return waitMs === undefined || result.status === 'finished' ? EXIT.ok : EXIT.failed;
    },
  };
}

function bodyOf(args: Arguments, type: string, payload: string): string {
  const rest = {
    type,
    id: args.text('id') ?? randomUUID(),
    key: args.text('key'),
    headers: headersOf(args.texts('header')),
    dueAt: args.text('due'),
    expiresAt: args.text('expires'),
  };
  return bodyWithPayload(rest, payload);
}

async function payloadOf(given: string, stdin: Readable): Promise<string> {
  if (given === '-') return textOf(stdin);
  return given.startsWith('@') ? fileOf(given.slice(1)) : given;
}

async function fileOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw usageError(`cannot read ${path} (${(error as { code?: string }).code})`);
  }
}

function headersOf(given: readonly string[]): Record<string, string> | undefined {
  if (given.length === 0) return undefined;
  return Object.fromEntries(
    given.map((one) => {
      const at = one.indexOf('=');
      if (at < 1) throw usageError(`--header ${one} is not name=value`);
      return [one.slice(0, at), one.slice(at + 1)];
    }),
  );
}

function waitOf(args: Arguments): number | undefined {
  const text = args.text('wait');
  if (text === undefined) return undefined;
  const seconds = Number(text.replace(/s$/, ''));
  if (!(seconds >= 0)) throw usageError(`--wait ${text} is not a number of seconds`);
  return seconds * 1_000;
}

async function waitForEnd(api: Api, sent: { id: string; status: string }, waitMs: number) {
  const until = Date.now() + waitMs;
  const path = `/v1/messages/${encodeURIComponent(sent.id)}`;
  for (;;) {
    const { status, error } = (await api.get(path)).body;
    if (status === 'finished') return { ...sent, status, error };
    if (ENDED.includes(status) || Date.now() > until) {
      const { explanation } = (await api.get(`${path}/why`)).body;
      return { ...sent, status, error, explanation };
    }
    await pause(POLL_MS);
  }
}
