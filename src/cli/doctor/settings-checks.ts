import { serversOf } from '../../config/database-url-variable.ts';
import { metadataIn } from '../../config/egress-allow-variable.ts';
import { isBound } from '../../config/key-binding.ts';
import { isLoopback, loadSettings, type Settings, SettingsError } from '../../config/settings.ts';
import { type Finding, failed, ok, warning } from './finding.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Errors that would prevent a start, and warnings about valid but unsafe settings. */
export function checkSettings(environment: Environment): readonly Finding[] {
  let settings: Settings;
  try {
    settings = loadSettings(environment);
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    return error.message
      .split('\n')
      .map((line) => failed('settings', line, 'the service does not start with this value'));
  }
  const unwise = warningsOf(settings);
  return unwise.length ? unwise : [ok('settings', 'valid')];
}

function warningsOf(settings: Settings): readonly Finding[] {
  const findings: Finding[] = [];
  const warn = (found: string, next: string) => findings.push(warning('settings', found, next));
  const servers = settings.databaseUrl === undefined ? [] : serversOf(settings.databaseUrl)!;
  const remote = servers.some(({ host }) => !isLoopback(host));
  if (remote && settings.secretsKeys.length === 0)
    warn(
      'SECRETS_KEYS is not set',
      'replicas on other machines cannot decrypt what this one encrypts: set it to the same value everywhere',
    );
  if (settings.metricsAccess === 'open' && !isLoopback(settings.host!))
    warn(
      'METRICS_ACCESS is open',
      'anyone who reaches the port can read the metrics: set METRICS_ACCESS=keyed, or keep the port private',
    );
  if (settings.egressAllow.some(({ prefix }) => prefix === 0))
    warn(
      'EGRESS_ALLOW allows everything',
      'a listener could be pointed at the metadata service: name the ranges of your receivers',
    );
  else if (settings.egressAllow.some((range) => metadataIn(range) !== undefined))
    warn(
      'EGRESS_ALLOW contains a metadata address',
      'a listener could be pointed at the address where the cloud gives out credentials: use narrower ranges',
    );
  const unbound = settings.apiKeys.filter((key) => key.scopes.includes('produce') && !isBound(key));
  if (unbound.length > 0 && settings.apiKeys.some(isBound))
    warn(
      `API_KEYS restricts some producers to sources or keys, but not ${unbound.map(({ name }) => name).join(', ')}`,
      'these can still post for the sources and keys of the others: restrict them, too',
    );
  return findings;
}
