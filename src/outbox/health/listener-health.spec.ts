import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { TestCluster } from '../../../test/support/test-cluster.ts';
import { Listeners } from '../../listeners/listeners.ts';
import { ListenerHealth } from './listener-health.ts';

let stage: TestCluster;

beforeAll(async () => {
  stage = await TestCluster.open();
});
afterAll(() => stage.close());

const alerts = () =>
  stage.database.query(`SELECT key, payload FROM inbox WHERE type = 'urn:sluice:alerts/listener-disabled'`);
const stateOf = async (name: string) => (await stage.call('GET', `/v1/listeners/${name}`)).body.state;

describe('a listener that is disabled', () => {
  it('raises its alert with the same commit: without the alert it stays active', async () => {
    await stage.listen('hopeless');
    const { nest } = stage.replica.app;
    const listener = nest
      .get(Listeners)
      .all()
      .find(({ name }) => name === 'hopeless')!;
    await stage.database.query(`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no alert'; END $$;
      CREATE TRIGGER refuse BEFORE INSERT ON inbox FOR EACH ROW EXECUTE FUNCTION refuse()`);
    await expect(nest.get(ListenerHealth).disable(listener, 'responded 410')).rejects.toThrow('no alert');
    expect(await stateOf('hopeless')).toBe('active');

    await stage.database.query('DROP FUNCTION refuse CASCADE');
    await nest.get(ListenerHealth).disable(listener, 'responded 410');
    expect(await stateOf('hopeless')).toBe('disabled');
    // Another replica that decides the same.
    await nest.get(ListenerHealth).disable(listener, 'responded 410');
    expect(await alerts()).toEqual([
      { key: 'hopeless', payload: expect.objectContaining({ reason: 'responded 410' }) },
    ]);
  });
});
