import type { Api, ApiResponse } from '../api.ts';
import { CliError } from '../cli-error.ts';
import { clockFinding } from './clock-finding.ts';
import { type Finding, failed, ok, warning } from './finding.ts';
import { checkGroups } from './group-checks.ts';

/** Checks the service as a client sees it. */
export async function checkService(api: Api): Promise<readonly Finding[]> {
  let ready: ApiResponse;
  const askedAtMs = Date.now();
  try {
    ready = await api.request('GET', '/readyz');
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    return [failed('service', error.message)];
  }
  const halfwayMs = (askedAtMs + Date.now()) / 2;
  const alive = await api.request('GET', '/livez');
  const keyed = await api.request('GET', '/v1/listeners', { query: { limit: '1' } });
  return [
    ready.status === 200
      ? ok('service', `ready at ${api.url}`)
      : failed('service', `not ready (${ready.body?.status})`),
    alive.status === 200
      ? ok('loops', 'all running')
      : failed(
          'loops',
          `stalled: ${alive.body?.loops}`,
          'the replica should have been restarted: check its liveness probe',
        ),
    // The Date header has whole seconds: on average it is half a second old.
    ...(ready.date ? [clockFinding('clock of the service', ready.date.getTime() + 500 - halfwayMs)] : []),
    keyFinding(keyed),
    ...(keyed.status === 200 ? await groupFindings(api) : []),
  ];
}

async function groupFindings(api: Api): Promise<readonly Finding[]> {
  try {
    return await checkGroups(api);
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    return [failed('groups', error.message)];
  }
}

function keyFinding({ status, body }: ApiResponse): Finding {
  if (status === 200) return ok('api key', 'may read');
  if (status === 401) return failed('api key', 'unknown or missing', 'set SLUICE_API_KEY');
  if (status === 403)
    return warning('api key', 'lacks the scope read', 'most commands need read, some admin');
  return failed('api key', `returned ${status}: ${body?.detail}`);
}
