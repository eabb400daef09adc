import { describe, expect, it } from '@jest/globals';
import { loadSettings } from '../config/settings.ts';
import { HttpMetrics } from '../http/http-metrics.ts';
import type { Problem } from '../http/problems.ts';
import { Wakeups } from '../lanes/wakeups.ts';
import { Activity } from '../telemetry/activity.ts';
import { createLog } from '../telemetry/logger.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { Ingest } from './ingest.ts';
import { IngestMetrics } from './ingest-metrics.ts';
import type { MessageAcceptor, Outcome } from './message-acceptor.ts';
import { type NewMessage, newMessage } from './new-message.ts';
import type { PostedMessages } from './read-request.ts';

/** Replaces the database: every commit waits until the test ends it. */
class Commits {
  readonly all: { batch: boolean; ids: string[]; end: (error?: unknown) => void }[] = [];

  acceptSingles = (messages: readonly NewMessage[]) => this.begin(messages, false);
  acceptBatch = (messages: readonly NewMessage[]) => this.begin(messages, true);

  private begin(messages: readonly NewMessage[], batch: boolean): Promise<readonly Outcome[]> {
    const ids = messages.map(({ id }) => id);
    return new Promise((resolve, reject) => {
      const outcomes = ids.map((id): Outcome => ({ kind: 'accepted', id, status: 'pending' }));
      this.all.push({ batch, ids, end: (error) => (error ? reject(error) : resolve(outcomes)) });
    });
  }

  ids(): string[] {
    return this.all.map(({ ids }) => ids.join(' '));
  }
}

function start(environment: Record<string, string> = {}) {
  const commits = new Commits();
  const wakeups = new Wakeups();
  const lines: string[] = [];
  const log = createLog({ logLevel: 'warn', logFormat: 'json' }, { write: (line) => void lines.push(line) });
  const registry = new Metrics();
  const metrics = new IngestMetrics(registry, new HttpMetrics(registry), new Activity());
  const settings = loadSettings(environment);
  const ingest = new Ingest(settings, log, commits as unknown as MessageAcceptor, metrics, wakeups);
  return { commits, wakeups, lines, ingest };
}

function message(id: string): NewMessage {
  return { ...newMessage({ id, source: 's', type: 't', payload: '1' }), lane: 7 };
}

function single(id: string, bytes = 10): PostedMessages {
  return { messages: [message(id)], batch: false, pointer: '', bytes };
}

function batch(...ids: string[]): PostedMessages {
  return { messages: ids.map(message), batch: true, pointer: '/messages', bytes: 10 };
}

/** One turn of the event loop: anything that needs a timer has not happened yet. */
const turn = () => new Promise(setImmediate);

describe('the queue of posts', () => {
  it('stores a single message in the same turn of the event loop: there is no timer', async () => {
    const { commits, ingest } = start();
    const posted = ingest.post(single('a'));
    await turn();
    expect(commits.ids()).toEqual(['a']);
    commits.all[0]!.end();
    expect(await posted).toEqual([{ kind: 'accepted', id: 'a', status: 'pending' }]);
  });

  it('stores posts that arrive while a commit is in flight with the next commit, in order', async () => {
    const { commits, ingest } = start();
    const first = ingest.post(single('a'));
    await turn();
    const others = ['b', 'c', 'd'].map((id) => ingest.post(single(id)));
    await turn();
    expect(commits.ids()).toEqual(['a']);
    commits.all[0]!.end();
    await first;
    await turn();
    expect(commits.ids()).toEqual(['a', 'b c d']);
    commits.all[1]!.end();
    expect((await Promise.all(others)).flat().map(({ id }) => id)).toEqual(['b', 'c', 'd']);
  });

  it('never mixes a batch with others, and keeps the order around it', async () => {
    const { commits, ingest } = start();
    const posts = [single('a'), single('b'), batch('c', 'd'), single('e')].map((one) => ingest.post(one));
    for (const index of [0, 1, 2]) {
      await turn();
      commits.all[index]!.end();
    }
    await Promise.all(posts);
    expect(commits.ids()).toEqual(['a b', 'c d', 'e']);
    expect(commits.all.map((commit) => commit.batch)).toEqual([false, true, false]);
  });

  it('makes no commit larger than the settings allow, yet accepts one message of any size', async () => {
    const { commits, ingest } = start({ INGEST_FLUSH_MESSAGES: '3', INGEST_FLUSH_BYTES: '1KiB' });
    const sizes = [400, 400, 400, 5_000, 1, 1, 1, 1];
    const posts = sizes.map((bytes, n) => ingest.post(single(String(n), bytes)));
    for (let index = 0; index < 5; index++) {
      await turn();
      commits.all[index]!.end();
    }
    await Promise.all(posts);
    expect(commits.ids()).toEqual(['0 1', '2', '3', '4 5 6', '7']);
  });

  it('refuses posts when the queue is full, by number or by size, with Retry-After', async () => {
    for (const limit of [{ INGEST_WAITING_MESSAGES: '3' }, { INGEST_WAITING_BYTES: '1MiB' }]) {
      const { commits, ingest } = start(limit);
      const posts = ['a', 'b', 'c'].map((id) => ingest.post(single(id, 349_000)));
      const refused = await Promise.resolve()
        .then(() => ingest.post(single('d', 349_000)))
        .catch((error: Problem) => error);
      expect(refused).toMatchObject({ problem: 'overloaded', more: { headers: { 'retry-after': '1' } } });
      await turn();
      commits.all[0]!.end();
      await Promise.all(posts);
      const after = ingest.post(single('e', 349_000));
      await turn();
      commits.all[1]!.end();
      expect(await after).toHaveLength(1);
    }
  });

  it('stores one by one when one of them fails, so that only the bad one is refused', async () => {
    const { commits, lines, ingest } = start();
    const settling = Promise.allSettled(['a', 'b', 'c'].map((id) => ingest.post(single(id))));
    await turn();
    const broken = new Error('one of them');
    for (const [index, error] of [broken, undefined, broken, undefined].entries()) {
      commits.all[index]!.end(error);
      await turn();
    }
    const settled = await settling;
    expect(commits.ids()).toEqual(['a b c', 'a', 'b', 'c']);
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(lines.join()).toContain('ingest.flush-split');
  });

  it.each([
    ['away', Object.assign(new Error('x'), { code: 'ECONNREFUSED' })],
    ['cut', new Error('Connection terminated unexpectedly')],
    ['stuck behind a lock', Object.assign(new Error('x'), { code: '55P03' })],
    ['too slow', Object.assign(new Error('x'), { code: '57014' })],
  ])('rejects all of them at once when the database is %s, and retries nothing', async (_, fault) => {
    const { commits, ingest } = start();
    const posts = ['a', 'b'].map((id) => ingest.post(single(id)));
    await turn();
    commits.all[0]!.end(fault);
    const settled = await Promise.allSettled(posts);
    expect(settled).toEqual([0, 1].map(() => ({ status: 'rejected', reason: fault })));
    expect(commits.ids()).toEqual(['a b']);
  });

  it('rejects the posts queued behind it too when the database is unreachable', async () => {
    const { commits, ingest } = start({ INGEST_FLUSH_MESSAGES: '1', INGEST_WAITING_MESSAGES: '3' });
    const away = Object.assign(new Error('x'), { code: 'ECONNREFUSED' });
    const posts = ['a', 'b', 'c'].map((id) => ingest.post(single(id)));
    await turn();
    commits.all[0]!.end(away);
    const settled = await Promise.allSettled(posts);
    expect(settled.map((one) => 'reason' in one && one.reason)).toEqual([away, away, away]);
    expect(commits.ids()).toEqual(['a']);
    const more = ['d', 'e', 'f'].map((id) => ingest.post(single(id)));
    for (const n of [1, 2, 3]) {
      await turn();
      commits.all[n]!.end();
    }
    expect(await Promise.all(more)).toHaveLength(3);
  });

  it('rejects posts that wait too long behind a commit, and stores nothing of them', async () => {
    const { commits, ingest } = start({ INGEST_WAIT: '100ms', INGEST_WAITING_MESSAGES: '2' });
    const slow = ingest.post(single('a'));
    await turn();
    const busy = { problem: 'overloaded', more: { headers: { 'retry-after': '1' } } };
    for (const id of ['b', 'c']) await expect(ingest.post(single(id))).rejects.toMatchObject(busy);
    commits.all[0]!.end();
    expect(await slow).toHaveLength(1);
    const next = ingest.post(single('d'));
    await turn();
    expect(commits.ids()).toEqual(['a', 'd']);
    commits.all[1]!.end();
    await next;
  });

  it('retries a commit that a deadlock ended', async () => {
    const { commits, ingest } = start();
    const posted = ingest.post(batch('a', 'b'));
    await turn();
    commits.all[0]!.end(Object.assign(new Error('x'), { code: '40P01' }));
    await turn();
    commits.all[1]!.end();
    expect(await posted).toHaveLength(2);
  });

  it('wakes the lanes that were written to, and a handler that throws affects no response', async () => {
    const { commits, wakeups, ingest } = start();
    const woken: number[][] = [];
    wakeups.on('inbox', (lanes) => {
      woken.push([...lanes]);
      throw new Error('a handler');
    });
    const posted = ingest.post(single('a'));
    await turn();
    commits.all[0]!.end();
    expect(await posted).toEqual([{ kind: 'accepted', id: 'a', status: 'pending' }]);
    expect(woken).toEqual([[7]]);
  });

  it('is empty before the replica stops', async () => {
    const { commits, ingest } = start();
    const posted = ingest.post(single('a'));
    await turn();
    let gone = false;
    const going = ingest.beforeApplicationShutdown().then(() => {
      gone = true;
    });
    await turn();
    expect(gone).toBe(false);
    commits.all[0]!.end();
    await Promise.all([posted, going]);
  });
});
