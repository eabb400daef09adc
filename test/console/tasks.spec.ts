import { expect, it } from '@jest/globals';
import type { Page } from 'playwright-core';
import { READ_KEY } from '../support/app.ts';
import { describeInBrowser } from '../support/browser.ts';
import { clicksOn, sharedConsole } from '../support/console.ts';
import { DEAD_ID, HELD_KEY, WAITING_ID } from '../support/console-data.ts';
import { ok } from '../support/receiver.ts';
import { until } from '../support/until.ts';

const MAX_CLICKS = 3;

describeInBrowser('E14 at 3 a.m., with at most three clicks from Now', () => {
  const { replica, data, visit } = sharedConsole();

  /** Opens Now, does it, and counts. */
  async function task(run: (page: Page) => Promise<void>): Promise<void> {
    const page = await visit('#/now');
    await page.getByText('The life of a message').waitFor();
    await run(page);
    expect(await clicksOn(page)).toBeLessThanOrEqual(MAX_CLICKS);
  }

  async function find(page: Page, text: string): Promise<void> {
    await page.keyboard.press('/');
    await page.keyboard.type(text);
    await page.keyboard.press('Enter');
  }

  const listeners = (page: Page) => page.getByRole('table', { name: 'Listeners' });
  const listenerOf = async (name: string) => (await replica.call('GET', `/v1/listeners/${name}`)).body;
  const messageOf = async (id: string) => (await replica.call('GET', `/v1/messages/${id}`)).body;

  it('says why a message waits', async () => {
    await task(async (page) => {
      await find(page, WAITING_ID);
      await page.getByText(/An operator holds its key without end/).waitFor();
    });
  });

  it('finds the message of a webhook id', async () => {
    const [delivery] = (await messageOf('order-3')).deliveries.filter(
      ({ listener }: { listener: string }) => listener === 'crm',
    );
    await task(async (page) => {
      await find(page, delivery.id);
      await page.getByRole('heading', { name: 'order-3' }).waitFor();
      await page.getByText(delivery.id).waitFor();
    });
  });

  it('revives a group of dead letters and shows the progress', async () => {
    await task(async (page) => {
      await page.getByRole('button', { name: /^Show \d+ more$/ }).click();
      const row = page.getByRole('listitem').filter({ hasText: '3 dead letters in the inbox' });
      await row.getByRole('button', { name: 'Revive…' }).click();
      await page.getByRole('button', { name: 'Revive 3' }).click();
      await page.getByText('3 of 3 revived').waitFor();
    });
  });

  it('discards dead letters by filter, with a reason', async () => {
    // They have been revived by the test before, and have died again.
    await until(async () => (await messageOf(DEAD_ID)).status === 'dead');
    await task(async (page) => {
      await page.getByRole('link', { name: /^Dead letters/ }).click();
      const group = page.getByRole('row').filter({ hasText: 'is not a CandidateFact' });
      await group.getByRole('button', { name: 'Discard…' }).click();
      await page.getByLabel('Reason').fill('test data');
      await page.getByRole('button', { name: 'Discard 3' }).click();
      await page.getByText('3 of 3 discarded').waitFor();
    });
    expect(await messageOf(DEAD_ID)).toMatchObject({ status: 'discarded' });
  });

  it('asks for the typed number above a hundred', async () => {
    const letters = Array.from({ length: 101 }, (_, index) => ({
      type: 'urn:ekp:events/candidate-accepted',
      key: `many-${index}`,
      payload: {},
    }));
    await replica.call('POST', '/v1/messages/batch', { body: { messages: letters } });
    await until(async () => (await replica.call('GET', '/v1/backlog')).body.inbox.deadLetters >= 101);
    const page = await visit('#/dead-letters?stage=inbox');
    await page.getByRole('button', { name: 'Discard what matches…' }).click();
    await page.getByLabel('Reason').fill('test data');
    const discard = page.getByRole('button', { name: 'Discard 101' });
    expect(await discard.isEnabled()).toBe(false);
    await page.getByLabel('Type 101 to confirm').fill('101');
    await discard.click();
    await page.getByText('101 of 101 discarded').waitFor();
  });

  it('pauses a listener with a reason', async () => {
    await task(async (page) => {
      await listeners(page).getByRole('link', { name: 'crm' }).click();
      await page.getByRole('button', { name: 'Pause…' }).click();
      await page.getByLabel('Reason').fill('their database is full');
      await page.getByRole('button', { name: 'Pause', exact: true }).click();
      await page.getByText('crm is paused.').waitFor();
    });
    expect(await listenerOf('crm')).toMatchObject({ state: 'paused', stateReason: 'their database is full' });
    await replica.call('POST', '/v1/listeners/crm/resume');
  });

  it('resumes a listener that was disabled', async () => {
    // Its endpoint is corrected; else it would be disabled again by the next delivery.
    for (const receiver of data.receivers) receiver.respond = ok;
    await task(async (page) => {
      const row = page.getByRole('listitem').filter({ hasText: 'The listener legacy-erp is disabled' });
      await row.getByRole('button', { name: 'Resume…' }).click();
      await page.getByRole('button', { name: 'Resume', exact: true }).click();
      await page.getByRole('dialog').waitFor({ state: 'hidden' });
    });
    expect(await listenerOf('legacy-erp')).toMatchObject({ state: 'active' });
  });

  it('tests an endpoint', async () => {
    await task(async (page) => {
      await listeners(page).getByRole('link', { name: 'billing' }).click();
      await page.getByRole('button', { name: 'Test' }).click();
      await page.getByText(/It responded 204 after/).waitFor();
    });
  });

  it('replays to a listener since a time, with the number before', async () => {
    await task(async (page) => {
      await listeners(page).getByRole('link', { name: 'crm' }).click();
      await page.getByRole('button', { name: 'Replay…' }).click();
      await page.getByText(/\d+ deliveries would be sent/).waitFor();
      await page.getByRole('button', { name: 'Start the replay' }).click();
      await page.getByText(/· finished/).waitFor();
    });
  });

  it('ends a hold', async () => {
    await task(async (page) => {
      await page.getByRole('link', { name: 'Holds' }).click();
      await page.getByRole('row').filter({ hasText: HELD_KEY }).getByRole('button').click();
      await page.getByRole('button', { name: 'End the hold' }).click();
      await page.getByText('The hold is ended.').waitFor();
    });
    await until(async () => (await messageOf(WAITING_ID)).status === 'finished');
  });

  it('shows who did that', async () => {
    await task(async (page) => {
      await page.getByRole('link', { name: 'Activity' }).click();
      const row = page.getByRole('row').filter({ hasText: 'their database is full' });
      await row.getByText('listener.pause').waitFor();
      await row.getByText('admin', { exact: true }).waitFor();
    });
  });

  it('revives by keyboard alone', async () => {
    const page = await visit('#/dead-letters?stage=outbox&listener=billing');
    await page.getByRole('button', { name: 'Revive what matches…' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: /^Revive \d+$/ }).waitFor();
    await page.getByLabel(/^Reason/).focus();
    await page.keyboard.type('the receiver is fixed');
    await page.keyboard.press('Enter');
    await page.getByText(/\d+ of \d+ revived/).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    expect(await clicksOn(page)).toBe(0);
  });

  it('shows a reader everything and no button that acts', async () => {
    for (const [hash, text] of [
      ['#/now', 'The life of a message'],
      ['#/message?id=order-3', 'Applied to the read models'],
      ['#/listener?name=billing', 'kept per key'],
      ['#/group?name=analytics', 'Nobody reads'],
      ['#/dead-letters', 'responded 410'],
      ['#/schedules', 'every 10 minutes'],
      ['#/activity', 'listener.pause'],
      ['#/system', 'Versions'],
    ] as const) {
      const page = await visit(hash, { key: READ_KEY });
      await page.getByText(text).first().waitFor();
      expect(await page.locator('[data-act]').count()).toBe(0);
    }
  });

  it('does not depend on hidden buttons: the service refuses a reader', async () => {
    const page = await visit('#/now', { key: READ_KEY });
    const status = await page.evaluate(
      `fetch('../v1/listeners/crm/pause', { method: 'POST' }).then((response) => response.status)`,
    );
    expect(status).toBe(403);
  });
});
