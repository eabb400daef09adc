import { expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';
import { recruitment } from '../../src/read-models/recruitment/recruitment.module.ts';
import { READ_KEY } from '../support/app.ts';
import { describeInBrowser } from '../support/browser.ts';
import { sharedConsole } from '../support/console.ts';
import type { Call } from '../support/console-data.ts';
import { rebuildReached } from '../support/console-rebuild.ts';
import { oneTableReadModel } from '../support/one-table-read-model.ts';
import { screenshot, violationsOf } from '../support/screen-checks.ts';
import { until } from '../support/until.ts';

let broken = false;

@Denormalizer({ types: ['stock'] })
@Injectable()
class Stock {
  async apply({ id, key }: Message, tx: ReadModelTransaction) {
    if (broken && id === 'stock-1') throw new Error('the shelf does not exist');
    await tx.query('INSERT INTO stock (key) VALUES ($1) ON CONFLICT DO NOTHING', [key]);
  }
}

describeInBrowser('E14 rebuilds in the console', () => {
  const { replica, visit } = sharedConsole({}, [
    recruitment,
    oneTableReadModel('stock (key text PRIMARY KEY)', [Stock]),
  ]);
  const call: Call = async (method, path, body) => (await replica.call(method, path, { body })).body;
  const rebuildOf = async (model: string) => (await call('GET', `/v1/read-models/${model}`)).rebuild;

  it('shows what differs, side by side, then switches, rolls back and drops', async () => {
    const page = await visit('#/read-model?name=recruitment');
    const tables = page.getByRole('table', { name: 'Differences' });
    await tables.getByRole('row', { name: 'candidate 1 0 1', exact: true }).waitFor();
    await tables.getByRole('row', { name: 'vacancy 0 1 0', exact: true }).waitFor();
    const row = page.getByRole('table', { name: 'Rows that differ' }).getByRole('row', { name: 'wrong' });
    await row.getByText('Ada 1', { exact: true }).waitFor();

    for (const [button, confirm, status] of [
      ['Switch…', 'Switch', 'switched'],
      ['Roll back…', 'Roll back', 'rolled-back'],
      ['Switch…', 'Switch', 'switched'],
      ['Drop…', 'Drop', 'dropped'],
    ] as const) {
      await page.getByRole('button', { name: button }).click();
      expect(await violationsOf(page)).toEqual([]);
      await page.getByRole('button', { name: confirm, exact: true }).click();
      await page.getByText(status, { exact: true }).waitFor();
      expect((await rebuildOf('recruitment')).status).toBe(status);
    }
    expect((await call('GET', '/v1/candidates/candidate-101')).name).toBe('Ada 1');
  });

  it('starts one with options, which stops at a message; the operator skips it with a reason', async () => {
    for (const n of [0, 1, 2])
      await call('POST', '/v1/messages', { id: `stock-${n}`, type: 'stock', key: `s-${n}`, payload: {} });
    await until(async () => (await call('GET', '/v1/messages/stock-2')).status === 'finished');
    broken = true;
    const page = await visit('#/read-models');
    await page
      .getByRole('row', { name: /tested.*never rebuilt/ })
      .getByRole('link')
      .click();
    await page.getByText('Never rebuilt').waitFor();
    await page.getByRole('button', { name: 'Rebuild…' }).click();
    expect(await page.getByLabel('Switch even if').count()).toBe(0);
    await page.getByLabel('Compare only').uncheck();
    await page.getByLabel('Leave out messages that fail').check();
    await page.getByLabel('Switch even if').waitFor();
    await screenshot(page, 'rebuild-dialog-light');
    await page.getByLabel('Leave out messages that fail').uncheck();
    await page.getByRole('button', { name: 'Start the rebuild' }).click();

    await page.getByText('It has stopped at a message').waitFor();
    await page.getByText('the shelf does not exist').waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await screenshot(page, 'read-model-failed-light');
    await page.getByRole('button', { name: 'Skip the message…' }).click();
    await page.getByLabel('Reason').fill('a shelf of 2019');
    await page.getByRole('button', { name: 'Skip it' }).click();
    await page.getByText('switched', { exact: true }).waitFor();
    expect(await rebuildOf('tested')).toMatchObject({ leftOut: 1, options: { dryRun: false } });

    await page.evaluate(`location.hash = '#/activity?action=read-model.*'`);
    const skipped = page.getByRole('row', { name: 'a shelf of 2019' });
    await skipped.getByRole('link', { name: 'tested' }).waitFor();
    await page.getByRole('table', { name: 'Rebuilds' }).getByRole('row', { name: 'tested' }).waitFor();
  });

  it('pauses, resumes and cancels', async () => {
    await call('POST', '/v1/read-models/tested/rebuild/drop');
    await call('POST', '/v1/read-models/tested/rebuild', { dryRun: true, recordFailures: true });
    await rebuildReached(call, 'tested', 'ready');
    const page = await visit('#/read-model?name=tested');
    for (const [button, confirm, text] of [
      ['Pause…', 'Pause', 'paused'],
      ['Resume…', 'Resume', 'ready'],
      ['Cancel…', 'Cancel the rebuild', 'cancelled'],
    ] as const) {
      await page.getByRole('button', { name: button }).click();
      await page.getByRole('button', { name: confirm, exact: true }).click();
      await page.getByText(text, { exact: true }).waitFor();
    }
    await page.getByText('1 message', { exact: true }).waitFor();
  });

  it('shows a reader no button', async () => {
    for (const hash of ['#/read-models', '#/read-model?name=recruitment']) {
      const page = await visit(hash, { key: READ_KEY });
      await page.getByText('dropped', { exact: true }).waitFor();
      expect(await page.locator('[data-act]').count()).toBe(0);
    }
  });
});
