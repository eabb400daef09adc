import { CONSUME_KEY, type TestApp } from './app.ts';
import { CANARIES } from './console-data.ts';

/** Texts that try to be scripts, from those who speak to the service directly: a source, a consumer's reason, a consumer's name. */
export async function writeCanaries(replica: TestApp): Promise<void> {
  await replica.call('POST', '/v1/messages', {
    headers: { 'content-type': 'application/cloudevents+json' },
    body: { specversion: '1.0', id: 'foreign', source: CANARIES.url, type: 'urn:shop:canaries', data: {} },
  });
  const pull = { key: CONSUME_KEY, body: { max: 1 } };
  const { body } = await replica.call('POST', '/v1/listeners/search-index/pull', pull);
  const reject = [{ lease: body.messages[0].lease, reason: CANARIES.script }];
  await replica.call('POST', '/v1/listeners/search-index/acknowledge', {
    key: CONSUME_KEY,
    body: { reject },
  });
  await replica.call('POST', '/v1/groups/shipping/members', {
    key: CONSUME_KEY,
    body: { name: CANARIES.image },
  });
}
