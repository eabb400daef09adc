import type { Command, Context } from '../command.ts';
import { type Finding, fault } from '../doctor/finding.ts';
import { checkService } from '../doctor/service-checks.ts';
import { checkSettings } from '../doctor/settings-checks.ts';
import { EXIT } from '../faults.ts';
import { table } from '../output.ts';

export const doctor: Command = {
  name: 'doctor',
  summary: 'Check the settings, the database and the service for what would break a promise.',
  usages: [''],
  options: {
    offline: { type: 'boolean', about: 'Leave the service out: only the settings and DATABASE_URL.' },
  },
  async run(args, context) {
    const findings = [
      ...checkSettings(context.environment),
      ...(await databaseFindings(context)),
      ...(args.flag('offline') ? [] : await checkService(context.api)),
    ];
    const well = findings.every(({ verdict }) => verdict !== 'fault');
    context.output.answer({ well, findings }, (limit) =>
      table(
        findings,
        [
          { title: 'CHECK', of: ({ check }) => check },
          { title: '', of: ({ verdict }) => verdict },
          { title: 'FOUND', of: ({ found }) => found, whole: true },
        ],
        limit,
      ).concat(advice(findings)),
    );
    return well ? EXIT.ok : EXIT.refused;
  },
};

/** As it would be with what the environment says, which may not even be an address. */
async function databaseFindings({ environment }: Context): Promise<readonly Finding[]> {
  const { DATABASE_URL } = environment;
  if (!DATABASE_URL) return [{ check: 'database', verdict: 'skipped', found: 'DATABASE_URL is not set' }];
  if (!URL.canParse(DATABASE_URL)) return [fault('database', 'DATABASE_URL is not a URL')];
  // Only here: it takes a second to load what other commands do without.
  const { checkDatabase } = await import('../doctor/database-checks.ts');
  return checkDatabase(DATABASE_URL);
}

function advice(findings: readonly Finding[]): string {
  const lines = findings.flatMap(({ check, next }) => (next ? [`${check}: ${next}\n`] : []));
  return lines.length ? `\n${lines.join('')}` : '';
}
