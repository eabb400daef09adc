import { parseCells } from '../../config/cells-variable.ts';
import { parseDatabaseUrl, parseReadDatabaseUrl } from '../../config/database-url-variable.ts';
import { Refused } from '../../config/setting.ts';
import { EXIT } from '../cli-error.ts';
import type { Command, Context } from '../command.ts';
import { type Finding, failed } from '../doctor/finding.ts';
import { checkService } from '../doctor/service-checks.ts';
import { checkSettings } from '../doctor/settings-checks.ts';
import { table } from '../output.ts';
import { READ_MODELS_OPTION } from './serve.ts';

export const doctor: Command = {
  name: 'doctor',
  summary: 'Check the settings, the database and the service for problems.',
  usages: [''],
  options: {
    ...READ_MODELS_OPTION,
    offline: { type: 'boolean', about: 'Check only the settings and DATABASE_URL, not the service.' },
  },
  async run(args, context) {
    const findings = [
      ...checkSettings(context.environment),
      ...(await databaseFindings(context, args.texts('read-models'))),
      ...(args.flag('offline') ? [] : await checkService(context.api)),
    ];
    const isOk = findings.every(({ verdict }) => verdict !== 'failed');
    context.output.result({ ok: isOk, findings }, (limit) =>
      table(
        findings,
        [
          { title: 'CHECK', of: ({ check }) => check },
          { title: 'RESULT', of: ({ verdict }) => verdict },
          { title: 'FOUND', of: ({ found }) => found, whole: true },
        ],
        limit,
      ).concat(advice(findings)),
    );
    return isOk ? EXIT.ok : EXIT.failed;
  },
};

/** Checks the databases of the environment, where their URLs may be malformed; `checkSettings` reports those of CELLS. */
async function databaseFindings(
  { environment }: Context,
  readModels: readonly string[],
): Promise<readonly Finding[]> {
  const { DATABASE_URL, READ_DATABASE_URL, CELLS } = environment;
  if (CELLS) return cellFindings(CELLS, readModels);
  if (!DATABASE_URL) return [{ check: 'database', verdict: 'skipped', found: 'DATABASE_URL is not set' }];
  if (typeof parseDatabaseUrl(DATABASE_URL) !== 'string')
    return [failed('database', 'DATABASE_URL is not the URL of a database')];
  // Imported only here: it takes a second to load, and other commands do not need it.
  const { checkDatabase } = await import('../doctor/database-checks.ts');
  const findings = await checkDatabase(DATABASE_URL, readModels);
  if (!READ_DATABASE_URL || typeof parseReadDatabaseUrl(READ_DATABASE_URL) !== 'string') return findings;
  const { checkStandbys } = await import('../doctor/standby-checks.ts');
  return [...findings, ...(await checkStandbys(READ_DATABASE_URL, DATABASE_URL))];
}

async function cellFindings(text: string, readModels: readonly string[]): Promise<readonly Finding[]> {
  const cells = parseCells(text);
  if (cells instanceof Refused) return [];
  const { checkDatabase } = await import('../doctor/database-checks.ts');
  const all = await Promise.all(
    cells.map(async ({ name, url }) => {
      const findings = await checkDatabase(url, readModels);
      return findings.map((finding) => ({ ...finding, check: `${finding.check} (${name})` }));
    }),
  );
  return all.flat();
}

function advice(findings: readonly Finding[]): string {
  const lines = findings.flatMap(({ check, next }) => (next ? [`${check}: ${next}\n`] : []));
  return lines.length ? `\n${lines.join('')}` : '';
}
