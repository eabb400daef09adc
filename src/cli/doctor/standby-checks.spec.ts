import { describe, expect, it } from '@jest/globals';
import { type ServerPosition, standbyFinding } from './standby-checks.ts';

const PRIMARY: ServerPosition = { cluster: '7', isStandby: false, run: '1.5', position: 50_000_000 };
const STANDBY: ServerPosition = { cluster: '7', isStandby: true, run: '2.5', position: 49_997_952 };

describe('the doctor, about a server of READ_DATABASE_URL', () => {
  it.each<[string, Partial<ServerPosition>, Partial<ServerPosition>, string, string]>([
    ['is content with a standby', {}, {}, 'ok', 'serves reads; 2 KiB behind'],
    ['finds one that is far behind', { position: 1 }, {}, 'warning', '48828 KiB behind'],
    ['finds the primary', { isStandby: false }, {}, 'warning', 'it is not a standby'],
    ['finds one of another cluster', { cluster: '8' }, {}, 'failed', 'it belongs to another PostgreSQL'],
    ['finds a name of several', {}, { run: '3.5' }, 'failed', 'the name resolves to several servers'],
  ])('%s', (_, first, second, verdict, found) => {
    const finding = standbyFinding('b:5432', PRIMARY, { ...STANDBY, ...first }, { ...STANDBY, ...second });
    expect(finding).toMatchObject({ check: 'standby b:5432', verdict });
    expect(finding.found).toContain(found);
  });
});
