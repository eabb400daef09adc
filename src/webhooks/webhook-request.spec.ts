import { describe, expect, it } from '@jest/globals';
import { type CloudEvent, HTTP } from 'cloudevents';
import fc from 'fast-check';
import { Webhook, WebhookVerificationError } from 'standardwebhooks';
import { headerRefusal } from './listener-headers.ts';
import {
  type Delivery,
  newSecret,
  signatures,
  type WebhookRequest,
  webhookRequest,
} from './webhook-request.ts';

const SECRET = newSecret();
const PAYLOAD = '{"n":1.0,"big":12345678901234567890,"text":"é\\u00e9\\n","nested":[{"a":null}]}';
const DELIVERY: Delivery = {
  deliveryId: '0199a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b',
  attempt: 3,
  messageId: 'm-1',
  source: 'urn:sluice:api-keys/orders',
  type: 'urn:ekp:events/candidate-accepted',
  key: 'c-1',
  sequence: 7,
  occurredAt: new Date('2025-11-16T03:00:00.123Z'),
  payload: PAYLOAD,
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
};

describe('a signed delivery', () => {
  it('is accepted by the official library, with the payload exactly as it was posted', () => {
    const request = webhookRequest(DELIVERY, listener());
    const body = new Webhook(SECRET).verify(request.body, headersOf(request));
    expect(body).toEqual({
      id: 'm-1',
      type: 'urn:ekp:events/candidate-accepted',
      timestamp: '2025-11-16T03:00:00.123Z',
      key: 'c-1',
      sequence: 7,
      data: JSON.parse(PAYLOAD),
    });
    expect(request.body).toContain(`"data":${PAYLOAD}}`);
    expect(headersOf(request)).toMatchObject({
      'content-type': 'application/json',
      'webhook-id': DELIVERY.deliveryId,
      'webhook-attempt': '3',
    });
  });

  it.each<[string, (request: WebhookRequest) => { body: string; headers: Record<string, string> }]>([
    [
      'another body',
      (request) => ({ body: request.body.replace('1.0', '2.0'), headers: headersOf(request) }),
    ],
    [
      'another id',
      (request) => ({ body: request.body, headers: { ...headersOf(request), 'webhook-id': 'x' } }),
    ],
    ['another time', (request) => ({ body: request.body, headers: shifted(request) })],
    [
      'another secret',
      ({ body, listener: number, ...rest }) => ({
        body,
        headers: {
          ...headersOf({ body, listener: number, ...rest }),
          'webhook-signature': signatures(DELIVERY.deliveryId, Math.floor(Date.now() / 1000), body, [
            newSecret(),
          ]),
        },
      }),
    ],
  ])('is refused by the official library with %s', (_what, tamper) => {
    const { body, headers } = tamper(webhookRequest(DELIVERY, listener()));
    expect(() => new Webhook(SECRET).verify(body, headers)).toThrow(WebhookVerificationError);
  });

  it('is accepted with both secrets during a rotation, and with no third one', () => {
    const former = newSecret();
    const request = webhookRequest(DELIVERY, listener({ secrets: [SECRET, former] }));
    for (const secret of [SECRET, former]) {
      expect(() => new Webhook(secret).verify(request.body, headersOf(request))).not.toThrow();
    }
    expect(() => new Webhook(newSecret()).verify(request.body, headersOf(request))).toThrow(
      WebhookVerificationError,
    );
  });

  it('has the signature that the official library creates, for any content', () => {
    fc.assert(
      fc.property(
        fc.jsonValue(),
        fc.string({ unit: 'grapheme' }),
        fc.uint8Array({ minLength: 24, maxLength: 64 }),
        (data, key, bytes) => {
          const secret = `whsec_${Buffer.from(bytes).toString('base64')}`;
          const at = new Date();
          const request = webhookRequest(
            { ...DELIVERY, key, payload: JSON.stringify(data) },
            listener({ secrets: [secret] }),
            at,
          );
          const official = new Webhook(secret).sign(DELIVERY.deliveryId, at, request.body);
          expect(headersOf(request)['webhook-signature']).toBe(official);
          expect(JSON.parse(request.body)).toMatchObject({ key });
        },
      ),
    );
  });

  it('has the same id at every attempt, and the time of the attempt', () => {
    const [first, second] = [1, 2].map((attempt) =>
      headersOf(webhookRequest({ ...DELIVERY, attempt }, listener(), new Date(attempt * 1_000_500))),
    );
    expect(first!['webhook-id']).toBe(second!['webhook-id']);
    expect([first!['webhook-timestamp'], second!['webhook-timestamp']]).toEqual(['1000', '2001']);
  });

  it('is never sent unsigned', () => {
    expect(() => webhookRequest(DELIVERY, listener({ secrets: [] }))).toThrow('without a secret');
    expect(() => webhookRequest(DELIVERY, listener({ secrets: ['whsec_'] }))).toThrow('is empty');
  });
});

describe('a new secret', () => {
  it('is 32 random bytes in the notation of Standard Webhooks', () => {
    expect(newSecret()).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(newSecret()).not.toBe(newSecret());
  });
});

describe('a delivery as a CloudEvent', () => {
  const asEvent = listener({ format: 'cloudevents' });

  it('is accepted by the official library: with the id of its message and the payload as body', () => {
    const request = webhookRequest(DELIVERY, asEvent);
    expect(request.body).toBe(PAYLOAD);
    const event = HTTP.toEvent({ headers: headersOf(request), body: request.body });
    expect(event).toMatchObject({
      specversion: '1.0',
      id: 'm-1',
      source: 'urn:sluice:api-keys/orders',
      type: 'urn:ekp:events/candidate-accepted',
      subject: 'c-1',
      time: '2025-11-16T03:00:00.123Z',
      datacontenttype: 'application/json',
      sequence: '7',
      sequencetype: 'Integer',
      data: JSON.parse(PAYLOAD),
    });
    expect((event as CloudEvent).validate()).toBe(true);
  });

  it('is signed like any other delivery', () => {
    const request = webhookRequest(DELIVERY, asEvent);
    expect(() => new Webhook(SECRET).verify(request.body, headersOf(request))).not.toThrow();
  });

  it('has percent-encoded attributes, as the HTTP binding requires', () => {
    const request = webhookRequest(
      { ...DELIVERY, key: 'Euro € 😀 "50%"\r\nx: y', messageId: 'a~b' },
      asEvent,
    );
    expect(headersOf(request)).toMatchObject({
      'ce-subject': 'Euro%20%E2%82%AC%20%F0%9F%98%80%20%2250%25%22%0D%0Ax:%20y',
      'ce-id': 'a~b',
    });
  });

  it('has attributes that decode to the original', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), (key) => {
        const value = headersOf(webhookRequest({ ...DELIVERY, key }, asEvent))['ce-subject']!;
        expect(value).toMatch(/^[\x21-\x7e]*$/);
        expect(decodeURIComponent(value)).toBe(key);
      }),
    );
  });
});

describe('the headers of a listener', () => {
  it.each([
    'host',
    'Host',
    'content-type',
    'Content-Length',
    'CONTENT-ENCODING',
    'connection',
    'Transfer-Encoding',
    'keep-alive',
    'upgrade',
    'te',
    'trailer',
    'expect',
    'proxy-authorization',
    'webhook-id',
    'Webhook-Signature',
    'webhook-anything',
    'ce-id',
    'CE-Source',
    'traceparent',
    'TraceState',
  ])('cannot set %s', (name) => {
    expect(headerRefusal(name, 'x')).toBe('is a header that the service sets itself');
    const plain = webhookRequest(DELIVERY, listener({ format: 'cloudevents' }), new Date(0));
    const tried = webhookRequest(
      DELIVERY,
      listener({ format: 'cloudevents', headers: { [name]: 'x' } }),
      new Date(0),
    );
    expect(tried).toEqual(plain);
  });

  it.each([
    ['', 'x'],
    ['x y', 'x'],
    ['x:', 'x'],
    ['x\r\ny', 'x'],
    ['é', 'x'],
    ['x', 'a\r\nb: c'],
    ['x', 'a\nb'],
    ['x', 'a\0b'],
    ['x', ' a'],
    ['x', 'a '],
    ['x', 'é'],
    ['x', '\u{1F600}'],
    ['x', '\x7f'],
    ['x', 'a'.repeat(4_097)],
  ])('cannot be %j: %j', (name, value) => {
    expect(headerRefusal(name, value)).toMatch(/^(is not|has a value)/);
    expect(webhookRequest(DELIVERY, listener({ headers: { [name]: value } }), new Date(0))).toEqual(
      webhookRequest(DELIVERY, listener(), new Date(0)),
    );
  });

  it('may be anything else, credentials and the user agent included', () => {
    const own = { Authorization: 'Bearer a b', 'X-Tenant': '', 'User-Agent': 'mine', accept: 'a\tb' };
    for (const [name, value] of Object.entries(own)) expect(headerRefusal(name, value)).toBeUndefined();
    const headers = webhookRequest(DELIVERY, listener({ headers: own })).headers;
    expect(headers).toEqual(expect.arrayContaining(Object.entries(own).flat()));
    expect(headers).not.toContain('user-agent');
    expect(headersOf(webhookRequest(DELIVERY, listener()))['user-agent']).toMatch(/^Sluice\/\d/);
  });
});

describe('the trace of a message', () => {
  it.each([
    '',
    'x',
    '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331',
    `${DELIVERY.traceparent}\r\nhost: evil`,
    `${DELIVERY.traceparent}\n`,
    DELIVERY.traceparent!.toUpperCase(),
    '00-00000000000000000000000000000000-b7ad6b7169203331-01',
    '00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01',
    'ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  ])('is not passed on when it is %j', (traceparent) => {
    expect(webhookRequest({ ...DELIVERY, traceparent }, listener()).traceparent).toBeUndefined();
  });

  it('is passed on when it is valid', () => {
    expect(webhookRequest(DELIVERY, listener()).traceparent).toBe(DELIVERY.traceparent);
  });
});

function listener(changes: Partial<Parameters<typeof webhookRequest>[1]> = {}) {
  return {
    number: 1,
    lanes: 16,
    url: 'https://example.com/hook',
    headers: {},
    format: 'standard' as const,
    secrets: [SECRET],
    ...changes,
  };
}

function headersOf({ headers }: WebhookRequest): Record<string, string> {
  const pairs: [string, string][] = [];
  for (let index = 0; index < headers.length; index += 2) pairs.push([headers[index]!, headers[index + 1]!]);
  return Object.fromEntries(pairs);
}

function shifted(request: WebhookRequest): Record<string, string> {
  const headers = headersOf(request);
  return { ...headers, 'webhook-timestamp': String(Number(headers['webhook-timestamp']) + 1) };
}
