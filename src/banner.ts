import type { Settings } from './config/settings.ts';
import type { ReadModel } from './contract/read-model.ts';
import type { Service } from './service.ts';

/** The read model that this repository is shown with: its messages mean nothing to others. */
const EXAMPLE = 'recruitment';

/** The text printed when the service has started. */
export function banner(settings: Settings, service: Service, readModels: readonly ReadModel[]): string {
  const open = settings.apiKeys.length === 0;
  const names = readModels.map(({ name }) => name);
  return `
  Sluice is serving   ${service.url}
  console             ${service.url}/console/
  documentation       ${service.url}/docs
  database            ${service.database}
  read models         ${names.join(', ') || 'none'}
  access              ${open ? 'OPEN: no API key needed; loopback only. Set API_KEYS to change that.' : 'API keys'}
${names.includes(EXAMPLE) ? exampleOf(service.url, open) : ''}
`;
}

function exampleOf(url: string, open: boolean): string {
  const key = open ? '' : ` -H 'authorization: Bearer <api key>'`;
  return `  try                 curl -i ${url}/v1/messages${key} -H 'content-type: application/json' \\
                        -d '{"type":"urn:ekp:events/candidate-applied","key":"c-1","payload":{"candidateId":"c-1","name":"Ada","vacancyId":"v-1"}}'
`;
}
