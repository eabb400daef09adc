import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import { startApp } from '../support/app.ts';
import { oneTableReadModel } from '../support/one-table-read-model.ts';
import { POLLING_OFF } from '../support/polling-off.ts';
import { ok, startReceiver } from '../support/receiver.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

/** Messages that wait in their denormalizer until the test releases them. */
const waiting = new Map<string, () => void>();

@Denormalizer({ types: ['note'] })
@Injectable()
class Notes {
  async apply({ key, payload }: Message<{ what: string }>, tx: ReadModelTransaction): Promise<void> {
    const { what } = payload;
    if (what === 'stand') await new Promise<void>((resolve) => waiting.set(key, resolve));
    await tx.query('INSERT INTO note VALUES ($1, $2)', [key, 'first']);
  }
}

const NOTES = oneTableReadModel('note (key text, text text)', [Notes]);

const { database, replica, start } = sharedReplica(POLLING_OFF, [NOTES]);

const post = (id: string, key: string, what: string) =>
  replica.call('POST', '/v1/messages', { body: { id, key, type: 'note', payload: { what } } });
const ended = (id: string, status: string) =>
  until(async () => (await replica.call('GET', `/v1/messages/${id}`)).body.status === status);
describe('without polling', () => {
  it('a message releases its lane with the transaction that finishes it', async () => {
    await post('released', 'released', 'note');
    await ended('released', 'finished');
    await until(async () => {
      const [row] = await database.query<{ together: boolean; token: string | null }>(
        `SELECT lane.xmin = inbox.xmin AS together, lane.token
         FROM inbox JOIN lane ON lane.queue = 'inbox' AND lane.lane = inbox.lane WHERE inbox.id = 'released'`,
      );
      if (row!.token !== null) return false;
      expect(row!.together).toBe(true);
      return true;
    });
  });

  it('a message that arrives while its lane is in use is handled right after', async () => {
    await post('stands', 'busy', 'stand');
    await until(() => waiting.has('busy'));
    await post('waits', 'busy', 'note');
    waiting.get('busy')!();
    await ended('waits', 'finished');
  });

  it('a replica that starts scans all lanes, however few it leases at a time', async () => {
    await database.query(
      `INSERT INTO inbox (id, source, type, key, lane, payload)
       SELECT 'found-' || n, 'urn:test', 'note', 'found-' || n, n, '{"what": "note"}' FROM generate_series(1, 9) AS n`,
    );
    const few = { ...POLLING_OFF, INBOX_BATCH_LANES: '1', INBOX_WORKERS: '1' };
    const starting = await startApp(database, few, [NOTES]);
    try {
      await until(async () => {
        const [left] = await database.query<{ n: string }>(
          `SELECT count(*) AS n FROM inbox WHERE id LIKE 'found-%' AND status <> 'finished'`,
        );
        return Number(left!.n) === 0;
      });
    } finally {
      await starting.close();
    }
  });

  it('so is a delivery that arrives while its lane is in use', async () => {
    const receiver = await startReceiver();
    try {
      let answerFirst: () => void = () => undefined;
      receiver.respond = (received, response, count) => {
        if (count > 1) ok(received, response, count);
        else answerFirst = () => ok(received, response, count);
      };
      const body = { types: ['note'], url: receiver.url, lanes: 1 };
      expect((await replica.call('PUT', '/v1/listeners/one', { body })).status).toBeLessThan(300);
      await post('delivered-1', 'a', 'note');
      await until(() => receiver.received.length === 1);
      await post('delivered-2', 'b', 'note');
      await ended('delivered-2', 'finished');
      answerFirst();
      await until(() => receiver.received.length === 2);
    } finally {
      await receiver.close();
    }
  });
});

describe('on another replica than the one that accepted it', () => {
  const connections = (name: string) =>
    database.query(
      'SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1',
      [name],
    );

  /** Two replicas with different roles: one accepts messages, the other applies them one by one. */
  async function handOver(settings: Record<string, string>, ready: () => Promise<boolean>): Promise<void> {
    await replica.close();
    const api = await startApp(database, { ...settings, ROLES: 'api' }, [NOTES]);
    const inbox = await startApp(database, { ...settings, ROLES: 'inbox' }, [NOTES]);
    try {
      await until(ready);
      for (let n = 0; n < 3; n++) {
        const id = `${settings.DATABASE_POOLER}-${n}`;
        const body = { id, key: id, type: 'note', payload: { what: 'note' } };
        await api.call('POST', '/v1/messages', { body });
        await until(async () => (await api.call('GET', `/v1/messages/${id}`)).body.status === 'finished');
      }
    } finally {
      await api.close();
      await inbox.close();
      await start();
    }
  }

  it('a message is handled at once, because the other replica is notified', async () => {
    const settings = { ...POLLING_OFF, DATABASE_POOLER: 'none' };
    await handOver(settings, async () => (await connections('sluice listen')).length === 2);
  });

  it('behind a pooler without sessions, it is found by polling', async () => {
    const settings = { ...POLLING_OFF, DATABASE_POOLER: 'transaction', INBOX_POLL: '50ms' };
    await handOver(settings, async () => (await connections('sluice listen')).length === 0);
  });
});
