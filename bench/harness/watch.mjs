import { once } from 'node:events';
import { get } from 'node:http';
import { deferred } from './route.mjs';

/** Keeps this many streams of snapshots open and reads them, from when each has had its first one until `stop`. */
export async function watch({ url, viewers }) {
  const stop = deferred();
  process.on('message', (word) => word === 'stop' && stop.resolve());
  const requests = [];
  for (let n = 0; n < viewers; n++) {
    const request = get(`${url}/v1/live`, { agent: false });
    const [response] = await once(request, 'response');
    if (response.statusCode !== 200) throw new Error(`the stream was refused with ${response.statusCode}`);
    await once(response, 'data');
    response.on('data', () => undefined).on('error', () => undefined);
    requests.push(request);
  }
  process.send({ url });
  await stop.promise;
  for (const request of requests) request.destroy();
}
