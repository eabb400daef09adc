import type { Api, ApiAnswer } from '../api.ts';
import { Fault } from '../faults.ts';
import { clockFinding } from './clock-finding.ts';
import { type Finding, fault, ok, warning } from './finding.ts';

/** The service as a caller sees it. */
export async function checkService(api: Api): Promise<readonly Finding[]> {
  let ready: ApiAnswer;
  const askedAtMs = Date.now();
  try {
    ready = await api.ask('GET', '/readyz');
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return [fault('service', error.message)];
  }
  const halfwayMs = (askedAtMs + Date.now()) / 2;
  const alive = await api.ask('GET', '/livez');
  const keyed = await api.ask('GET', '/v1/listeners', { query: { limit: '1' } });
  return [
    ready.status === 200
      ? ok('service', `ready at ${api.url}`)
      : fault('service', `not ready (${ready.body?.status})`),
    alive.status === 200
      ? ok('loops', 'all cycle')
      : fault(
          'loops',
          `standing still: ${alive.body?.loops}`,
          'the replica should have been restarted: check its liveness probe',
        ),
    // A date has whole seconds: on average it is half a second old.
    ...(ready.date ? [clockFinding('clock of the service', ready.date.getTime() + 500 - halfwayMs)] : []),
    keyFinding(keyed),
  ];
}

function keyFinding({ status, body }: ApiAnswer): Finding {
  if (status === 200) return ok('api key', 'may read');
  if (status === 401) return fault('api key', 'unknown or missing', 'set SLUICE_API_KEY');
  if (status === 403)
    return warning('api key', 'lacks the scope read', 'most commands need read, some admin');
  return fault('api key', `answered ${status}: ${body?.detail}`);
}
