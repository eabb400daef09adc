import { describe, expect, it } from '@jest/globals';
import { SCREEN_OF_KIND, screenOf } from '../../console/src/screens/now/screen-of.ts';
import { type Finding, type Item, itemOf, KINDS } from '../../src/upkeep/attention/attention-item.ts';
import { findingsInBacklog } from '../../src/upkeep/attention/findings-in-backlog.ts';
import { findingsInTables } from '../../src/upkeep/attention/findings-in-tables.ts';
import type { Observed } from '../../src/upkeep/observation/observation-store.ts';
import { describeInBrowser } from '../support/browser.ts';
import { sharedConsole } from '../support/console.ts';
import { HELD_KEY } from '../support/console-data.ts';

const at = new Date();
const since = at;

/** Every kind of finding, about what the console's data have. */
const ITEMS: readonly Item[] = [
  ...findingsInTables({
    roles: ['outbox', 'upkeep'],
    listeners: [
      row('legacy-erp', { state: 'disabled' }),
      row('warehouse', { reason: 'circuit open: responded 500', openSince: since }),
    ],
    dead: [
      {
        stage: 'outbox',
        listener: 'billing',
        group: null,
        fingerprint: 'responded 422',
        count: 1,
        since,
        capped: false,
      },
    ],
    jobs: [
      { kind: 'stalled-revive', id: 1, what: 'revive', listener: null, since },
      { kind: 'stalled-replay', id: 1, what: 'replay', listener: 'crm', since },
      { kind: 'rebuild-stopped', id: 1, what: 'recruitment', listener: null, since },
      { kind: 'schema-kept', id: 1, what: 'recruitment', listener: null, since },
    ],
    gaps: [{ source: 'urn:sluice:api-keys/admin', id: 'p-1', since, first: 3, count: 1 }],
    holds: [{ key: HELD_KEY, reason: 'operator', since }],
    history: [{ work: 'archive', since, error: 'disk full' }],
    sources: [{ name: 'orders', state: 'full', error: 'too many', since, count: 5 }],
  }),
  ...findingsInBacklog(
    [
      observed({ name: 'inconsistent_rows' }),
      observed({ name: 'messages_expiring_soon' }),
      old('crm'),
      old('search-index'),
      ...(['members', 'lag_messages', 'lag_seconds', 'partitions_unowned', 'messages_expired'] as const).map(
        (what) => observed({ name: `group_${what}`, group: 'analytics' }),
      ),
    ],
    at,
    (name) => name === 'search-index',
  ),
].map((finding: Finding) => itemOf(finding));

function row(name: string, more: object) {
  const closed = { reason: null, openSince: null, closedUntil: null };
  return { name, state: 'active', stateReason: null, stateSince: since, ...closed, ...more };
}

function observed(row: Partial<Observed> & Pick<Observed, 'name'>): Observed {
  return { kind: null, stage: null, listener: null, group: null, value: 100, ...row } as Observed;
}

function old(listener: string): Observed {
  return observed({ name: 'backlog_oldest_age_seconds', kind: 'ready', stage: 'outbox', listener });
}

/** What the screen of an item shows of its subject. */
const SHOWN: Readonly<Record<string, string>> = {
  'role-missing': 'Replicas',
  'inconsistent-rows': 'Inconsistent rows',
  'history-failed': 'System',
  'source-failing': 'A source fails',
  'messages-refused': 'A source fails',
  'offsets-expired': 'analytics',
  'listener-disabled': 'legacy-erp',
  'circuit-open': 'warehouse',
  'expiring-soon': 'Messages',
  'backlog-old': 'crm',
  'queue-not-consumed': 'search-index',
  'partition-unowned': 'analytics',
  'dead-letters': 'billing',
  'consumer-lag': 'analytics',
  'rebuild-stopped': 'Rows that differ',
  'schema-kept': 'Rows that differ',
  'stalled-revive': 'Revives and discards',
  'stalled-replay': 'Replays',
  'producer-gap': 'urn:sluice:api-keys/admin',
  'hold-without-end': HELD_KEY,
};

describe('what needs an operator', () => {
  it('has a screen for each kind, and a next step for somebody who has no terminal', () => {
    expect([...new Set(ITEMS.map(({ kind }) => kind))].sort()).toEqual([...KINDS].sort());
    expect(Object.keys(SCREEN_OF_KIND).sort()).toEqual([...KINDS].sort());
    for (const { nextStep } of ITEMS) expect(nextStep).not.toMatch(/\/v1\//);
  });
});

describeInBrowser('E14 the link of what needs an operator', () => {
  const { visit } = sharedConsole();

  it('opens a screen that shows its subject', async () => {
    const page = await visit('#/now');
    for (const { kind, subject, guide } of ITEMS) {
      const [screen, query = {}] = screenOf(kind, subject, guide);
      const given = Object.entries(query).filter((entry): entry is [string, string] => !!entry[1]);
      await page.evaluate(`location.hash = '#/${screen}?${new URLSearchParams(given)}'`);
      await page.locator('main').getByText(SHOWN[kind]!).first().waitFor();
      expect([kind, await page.locator('main [role=alert]').count()]).toEqual([kind, 0]);
    }
  });
});
