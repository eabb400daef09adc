import type { Settings } from './config/settings.ts';
import type { Service } from './service.ts';

/** The text printed when the service has started. */
export function banner(settings: Settings, service: Service): string {
  const open = settings.apiKeys.length === 0;
  const key = open ? '' : ` -H 'authorization: Bearer <api key>'`;
  return `
  Sluice is serving   ${service.url}
  console             ${service.url}/console/
  documentation       ${service.url}/docs
  database            ${service.database}
  access              ${open ? 'OPEN: no API key needed; loopback only. Set API_KEYS to change that.' : 'API keys'}
  try                 curl -i ${service.url}/v1/messages${key} -H 'content-type: application/json' \\
                        -d '{"type":"urn:ekp:events/candidate-applied","key":"c-1","payload":{"candidateId":"c-1","name":"Ada","vacancyId":"v-1"}}'

`;
}
