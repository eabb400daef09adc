import { metadataIn } from '../../config/egress-allow-variable.ts';
import { isBound } from '../../config/key-binding.ts';
import { isLoopback, loadSettings, type Settings, SettingsError } from '../../config/settings.ts';
import { type Finding, fault, ok, warning } from './finding.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** What would stop a start, and what would not but is unwise. */
export function checkSettings(environment: Environment): readonly Finding[] {
  let settings: Settings;
  try {
    settings = loadSettings(environment);
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    return error.message
      .split('\n')
      .map((line) => fault('settings', line, 'the service does not start with it'));
  }
  const unwise = unwiseOf(settings);
  return unwise.length ? unwise : [ok('settings', 'valid')];
}

function unwiseOf(settings: Settings): readonly Finding[] {
  const findings: Finding[] = [];
  const warn = (found: string, next: string) => findings.push(warning('settings', found, next));
  const remote = settings.databaseUrl !== undefined && !isLoopback(new URL(settings.databaseUrl).hostname);
  if (remote && settings.secretsKeys.length === 0)
    warn(
      'SECRETS_KEYS is not set',
      'replicas on other machines cannot read what this one seals: set it, the same everywhere',
    );
  if (settings.metricsAccess === 'open' && !isLoopback(settings.host!))
    warn(
      'METRICS_ACCESS is open',
      'everybody who reaches the port can read the metrics: set METRICS_ACCESS=keyed, or keep the port inside',
    );
  if (settings.egressAllow.some(({ prefix }) => prefix === 0))
    warn(
      'EGRESS_ALLOW allows everything',
      'a listener could be pointed at the metadata service: name the ranges of your receivers',
    );
  else if (settings.egressAllow.some((range) => metadataIn(range) !== undefined))
    warn(
      'EGRESS_ALLOW contains a metadata address',
      'a listener could be pointed at where the cloud hands out credentials: name narrower ranges',
    );
  const unbound = settings.apiKeys.filter((key) => key.scopes.includes('produce') && !isBound(key));
  if (unbound.length > 0 && settings.apiKeys.some(isBound))
    warn(
      `API_KEYS binds some producers, but not ${unbound.map(({ name }) => name).join(', ')}`,
      'those can still post for the sources and keys of the others: bind them, too',
    );
  return findings;
}
