import { randomBytes } from 'node:crypto';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { Loops } from '../clock/loops.ts';
import { loadSettings } from '../config/settings.ts';
import { createLog } from '../telemetry/logger.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { Listeners } from './listeners.ts';
import type { ListenerRow, ListenersStore } from './listeners-store.ts';
import { ConfidentialBox } from './secrets/confidential.ts';
import { MasterKeys } from './secrets/master-keys.ts';

const settings = loadSettings({ SECRETS_KEYS: `k1=${randomBytes(32).toString('base64')}` });
const log = createLog(settings, { write: () => undefined });
const box = new ConfidentialBox(new MasterKeys(settings, log));

/** What the database contains, and whether it is available. */
let revision: number;
let rows: ListenerRow[];
let isAway: boolean;
let beforeRows: () => Promise<void>;
let listeners: Listeners;

beforeEach(() => {
  revision = 1;
  rows = [];
  isAway = false;
  beforeRows = async () => undefined;
  const store = {
    async revision() {
      if (isAway) throw new Error('Connection terminated');
      return { revision, now: new Date() };
    },
    async live() {
      const seen = rows;
      await beforeRows();
      return seen;
    },
    deletedNumbers: async () => [],
  } as Partial<ListenersStore> as ListenersStore;
  listeners = new Listeners(store, box, log, new Loops({ roles: [] }, log, new Metrics()));
});

describe('the listeners that a replica knows', () => {
  it('cannot be read before they are known', () => {
    expect(() => listeners.of('a')).toThrow('not loaded yet');
  });

  it('stay known while the database is unavailable, and change when it is back', async () => {
    rows = [await row('one', 1)];
    await listeners.refresh();
    isAway = true;
    rows = [];
    revision = 2;
    await expect(listeners.refresh()).rejects.toThrow('Connection terminated');
    expect(listeners.of('one/x').map(({ name }) => name)).toEqual(['one']);
    expect(listeners.byNumber(1)?.name).toBe('one');
    isAway = false;
    await listeners.refresh();
    expect(listeners.of('one/x')).toEqual([]);
  });

  it('never go back to an older revision when two reads end in the other order', async () => {
    await listeners.refresh();
    let goOn!: () => void;
    let isThere!: () => void;
    const there = new Promise<void>((resolve) => {
      isThere = resolve;
    });
    revision = 2;
    beforeRows = () => {
      isThere();
      return new Promise((resolve) => {
        goOn = resolve;
      });
    };
    const slow = listeners.refresh();
    await there;
    beforeRows = async () => undefined;
    rows = [await row('new', 7)];
    revision = 3;
    await listeners.refresh();
    goOn();
    await slow;
    expect(listeners.all().map(({ name }) => name)).toEqual(['new']);
  });
});

async function row(name: string, number: number): Promise<ListenerRow> {
  const content = { secrets: [{ secret: 'whsec_x' }], headers: {}, url: 'https://1.1.1.1/' };
  const at = new Date();
  return {
    ...{
      name,
      number,
      revision: 1,
      lanes: 16,
      definition: { types: [`${name}/*`], urlOrigin: 'https://1.1.1.1' },
    },
    ...{ sealed: await box.seal(name, content), secret_from: 'service', origin: 'api', deleted_at: null },
    ...{
      state: 'active',
      state_reason: null,
      state_since: at,
      state_by: 'x',
      created_at: at,
      updated_at: at,
    },
  };
}
