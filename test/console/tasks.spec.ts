import { describe, expect, it } from '@jest/globals';
import type { Page } from 'playwright-core';
import { READ_KEY } from '../support/app.ts';
import { describeInBrowser } from '../support/browser.ts';
import { sharedConsole } from '../support/console.ts';
import { DEAD_ID, HELD_KEY, WAITING_ID } from '../support/console-data.ts';
import { type Hands, KEYBOARD, MOUSE, task } from '../support/hands.ts';
import { ok, status } from '../support/receiver.ts';
import { until } from '../support/until.ts';

const BY_HAND: readonly [how: string, hands: Hands][] = [MOUSE, KEYBOARD].map((hands) => [hands.name, hands]);

describeInBrowser('E14 at 3 a.m.', () => {
  const { replica, data, visit } = sharedConsole();
  const call = async (method: string, path: string, body?: unknown) =>
    (await replica.call(method, path, { body })).body;
  const listenerOf = (name: string) => call('GET', `/v1/listeners/${name}`);
  const messageOf = (id: string) => call('GET', `/v1/messages/${id}`);

  const fromNow = async (hands: Hands, run: (page: Page) => Promise<void>) =>
    task(await visit('#/now'), hands, run);

  async function find(page: Page, text: string): Promise<void> {
    await page.keyboard.press('/');
    await page.keyboard.type(text);
    await page.keyboard.press('Enter');
  }

  const listeners = (page: Page) => page.getByRole('table', { name: 'Listeners' });

  /** Three of them are dead in the inbox, whatever became of the first ones. */
  async function threeAreDead(): Promise<void> {
    const deadLetters = async () => (await call('GET', '/v1/backlog')).inbox.deadLetters;
    const isDiscarded = (await messageOf(DEAD_ID)).status === 'discarded';
    for (const index of isDiscarded ? [1, 2, 3] : [])
      await call('POST', '/v1/messages', {
        id: `${DEAD_ID}-again-${index}`,
        type: 'urn:ekp:events/candidate-accepted',
        key: `again-${index}`,
        payload: {},
      });
    await until(async () => (await deadLetters()) === 3);
  }

  /** The listener of an endpoint that is gone, which is corrected then; else it would be disabled again. */
  async function isDisabled(name: string): Promise<void> {
    data.receivers.at(-1)!.respond = status(410);
    for (const index of [1, 2])
      await call('POST', '/v1/messages', {
        type: 'urn:shop:customers/changed',
        key: `gone-${index}`,
        payload: {},
      });
    await until(async () => (await listenerOf(name)).state === 'disabled');
    for (const receiver of data.receivers) receiver.respond = ok;
  }

  describe.each(BY_HAND)('%s', (_how, hands) => {
    const { press, fill } = hands;

    it('says why a message waits', async () => {
      await call('PUT', `/v1/keys/${HELD_KEY}/hold`, { reason: 'merging two accounts' });
      const id = `${WAITING_ID}-${hands.maxClicks}`;
      await call('POST', '/v1/messages', { id, type: 'urn:shop:orders/placed', key: HELD_KEY, payload: {} });
      await fromNow(hands, async (page) => {
        await find(page, id);
        await page.getByText(/An operator holds its key indefinitely/).waitFor();
      });
    });

    it('finds the message of a webhook id', async () => {
      const [delivery] = (await messageOf('order-3')).deliveries.filter(
        ({ listener }: { listener: string }) => listener === 'crm',
      );
      await fromNow(hands, async (page) => {
        await find(page, delivery.id);
        await page.getByRole('heading', { name: 'order-3' }).waitFor();
        await page.getByText(delivery.id).waitFor();
      });
    });

    it('revives a group of dead letters and shows the progress', async () => {
      await threeAreDead();
      await fromNow(hands, async (page) => {
        await press(page.getByRole('button', { name: /^Show \d+ more$/ }));
        const row = page.getByRole('listitem').filter({ hasText: '3 dead letters in the inbox' });
        await press(row.getByRole('button', { name: 'Revive…' }));
        await press(page.getByRole('button', { name: 'Revive 3' }));
        await page.getByText('3 of 3 revived').waitFor();
      });
    });

    it('discards dead letters by filter, with a reason', async () => {
      await threeAreDead();
      await fromNow(hands, async (page) => {
        await press(page.getByRole('link', { name: /^Dead letters/ }));
        const group = page.getByRole('row').filter({ hasText: 'is not a CandidateFact' });
        await press(group.getByRole('button', { name: 'Discard…' }));
        await fill(page.getByLabel('Reason'), 'test data');
        await press(page.getByRole('button', { name: 'Discard 3' }));
        await page.getByText('3 of 3 discarded').waitFor();
      });
      await until(async () => (await call('GET', '/v1/backlog')).inbox.deadLetters === 0);
    });

    it('pauses a listener with a reason', async () => {
      await fromNow(hands, async (page) => {
        await press(listeners(page).getByRole('link', { name: 'crm' }));
        await press(page.getByRole('button', { name: 'Pause…' }));
        await fill(page.getByLabel('Reason'), 'their database is full');
        await press(page.getByRole('button', { name: 'Pause', exact: true }));
        await page.getByText('crm is paused.').waitFor();
      });
      expect(await listenerOf('crm')).toMatchObject({
        state: 'paused',
        stateReason: 'their database is full',
      });
      await call('POST', '/v1/listeners/crm/resume');
    });

    it('resumes a listener that was disabled', async () => {
      await isDisabled('legacy-erp');
      await fromNow(hands, async (page) => {
        const row = page.getByRole('listitem').filter({ hasText: 'The listener legacy-erp is disabled' });
        await press(row.getByRole('button', { name: 'Resume…' }));
        await press(page.getByRole('button', { name: 'Resume', exact: true }));
        await page.getByRole('dialog').waitFor({ state: 'hidden' });
      });
      expect(await listenerOf('legacy-erp')).toMatchObject({ state: 'active' });
    });

    it('tests an endpoint', async () => {
      await fromNow(hands, async (page) => {
        await press(listeners(page).getByRole('link', { name: 'billing' }));
        await press(page.getByRole('button', { name: 'Test' }));
        await page.getByText(/It responded 204 after/).waitFor();
      });
    });

    it('replays to a listener since a time, with the number before', async () => {
      await fromNow(hands, async (page) => {
        await press(listeners(page).getByRole('link', { name: 'crm' }));
        await press(page.getByRole('button', { name: 'Replay…' }));
        await page.getByText(/\d+ deliveries would be sent/).waitFor();
        await press(page.getByRole('button', { name: 'Start the replay' }));
        await page.getByText(/· finished/).waitFor();
      });
    });

    it('ends a hold', async () => {
      await fromNow(hands, async (page) => {
        await press(page.getByRole('link', { name: 'Holds' }));
        await press(page.getByRole('row').filter({ hasText: HELD_KEY }).getByRole('button'));
        await press(page.getByRole('button', { name: 'End the hold' }));
        await page.getByText('The hold is ended.').waitFor();
      });
      await until(async () => (await messageOf(WAITING_ID)).status === 'finished');
    });

    it('shows who did that', async () => {
      await fromNow(hands, async (page) => {
        await press(page.getByRole('link', { name: 'Activity' }));
        const row = page.getByRole('row').filter({ hasText: 'their database is full' }).first();
        await row.getByText('listener.pause').waitFor();
        await row.getByText('admin', { exact: true }).waitFor();
      });
    });
  });

  it('asks for the typed number above a hundred', async () => {
    const letters = Array.from({ length: 101 }, (_, index) => ({
      type: 'urn:ekp:events/candidate-accepted',
      key: `many-${index}`,
      payload: {},
    }));
    await call('POST', '/v1/messages/batch', { messages: letters });
    await until(async () => (await call('GET', '/v1/backlog')).inbox.deadLetters >= 101);
    const page = await visit('#/dead-letters?stage=inbox');
    await page.getByRole('button', { name: 'Discard what matches…' }).click();
    await page.getByLabel('Reason').fill('test data');
    const discard = page.getByRole('button', { name: 'Discard 101' });
    expect(await discard.isEnabled()).toBe(false);
    await page.getByLabel('Type 101 to confirm').fill('101');
    await discard.click();
    await page.getByText('101 of 101 discarded').waitFor();
  });

  it('does not depend on hidden buttons: the service refuses a reader', async () => {
    const page = await visit('#/now', { key: READ_KEY });
    const status = await page.evaluate(
      `fetch('../v1/listeners/crm/pause', { method: 'POST' }).then((response) => response.status)`,
    );
    expect(status).toBe(403);
  });
});
