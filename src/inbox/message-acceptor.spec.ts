import { beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { sharedReplica } from '../../test/support/shared-replica.ts';
import { IngestStore } from './ingest-store.ts';
import { MessageAcceptor } from './message-acceptor.ts';
import { type NewMessage, newMessage } from './new-message.ts';

const { database, replica } = sharedReplica({ ROLES: 'api' });
let accept: MessageAcceptor;
let transactions: number;

beforeAll(() => {
  const store = replica.app.nest.get(IngestStore);
  const transaction = store.transaction.bind(store);
  store.transaction = (work) => {
    transactions += 1;
    return transaction(work);
  };
  accept = replica.app.nest.get(MessageAcceptor);
});
beforeEach(() => {
  transactions = 0;
});

function message(id: string, payload: string, sequence?: number, producer = 'p'): NewMessage {
  const numbered = sequence === undefined ? undefined : { caller: 'a', id: producer, sequence };
  return newMessage({ id, source: 's', type: 't', payload, producer: numbered });
}

const kindsOf = (outcomes: readonly { kind: string }[]) => outcomes.map(({ kind }) => kind);
const ids = async (prefix: string) =>
  (await database.query(`SELECT id FROM inbox WHERE id LIKE '${prefix}%' ORDER BY position`)).map(
    ({ id }) => id,
  );

describe('single messages in one commit', () => {
  it('need one more transaction, not one each, when one with a number is refused', async () => {
    await accept.acceptSingles([message('taken', '1')]);
    const others = Array.from({ length: 499 }, (_, n) =>
      message(`n-${n}`, '1', n % 2 ? n : undefined, `p-${n}`),
    );
    const outcomes = await accept.acceptSingles([
      ...others.slice(0, 100),
      message('taken', '2', 1),
      ...others.slice(100),
    ]);
    expect(kindsOf(outcomes)).toEqual(outcomes.map((_, n) => (n === 100 ? 'conflict' : 'accepted')));
    expect(transactions).toBe(2);
    expect(await ids('n-')).toEqual(others.map(({ id }) => id));
  });

  it('need no more when the refused one has no number', async () => {
    const outcomes = await accept.acceptSingles([message('taken', '3'), message('b-1', '1', 1, 'b')]);
    expect([kindsOf(outcomes), transactions]).toEqual([['conflict', 'accepted'], 1]);
  });

  it('leave the number of a refused one free, and report the gap with the next', async () => {
    const outcomes = await accept.acceptSingles([
      message('c-1', '1', 1, 'c'),
      message('taken', '2', 2, 'c'),
      message('c-3', '1', 3, 'c'),
    ]);
    expect(outcomes[2]).toEqual({ kind: 'accepted', id: 'c-3', status: 'pending', gap: { from: 2, to: 2 } });
    const [late] = await accept.acceptSingles([message('c-2', '1', 2, 'c')]);
    expect(late).toMatchObject({ kind: 'accepted', gapFilled: true });
  });

  it('report a gap before one whose id was known already', async () => {
    await accept.acceptSingles([message('d-1', '1', 1, 'd'), message('d-4', '1')]);
    const gap = { from: 2, to: 3 };
    expect(await accept.acceptSingles([message('d-4', '1', 4, 'd')])).toMatchObject([
      { kind: 'duplicate', gap },
    ]);
    expect(await accept.acceptSingles([message('d-2', '1', 2, 'd')])).toMatchObject([{ gapFilled: true }]);
  });
});

describe('a producer that retention removes at the same time', () => {
  it('is added again, and its message is stored', async () => {
    await accept.acceptSingles([message('r-1', '1', 1, 'removed')]);
    await database.query(`UPDATE producer SET seen_at = '2020-01-01' WHERE id = 'removed'`);
    // Between the statement that finds it and the one that locks it.
    await database.query(`
      CREATE FUNCTION remove_idle() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN DELETE FROM producer WHERE seen_at < '2021-01-01'; RETURN NULL; END $$;
      CREATE TRIGGER remove_idle AFTER INSERT ON producer FOR EACH STATEMENT EXECUTE FUNCTION remove_idle()`);
    const [outcome] = await accept.acceptSingles([message('r-2', '1', 2, 'removed')]);
    expect(outcome).toMatchObject({ kind: 'accepted', id: 'r-2' });
    await database.query('DROP FUNCTION remove_idle CASCADE');
  });
});
